import { describe, expect, it } from 'vitest'
import type { Journal } from '../../../schemas/types.ts'
import type { Job } from '../../../services/jobs/job.ts'
import { emptyFold } from '../../../services/ledger/journal-fold.ts'
import { rebuildJobs, type RebuildParts } from '../../../services/ledger/rebuild-jobs.ts'
import type { Rebuilt } from '../../../services/ledger/rebuilt.ts'
import { endedJob } from '../../support/results.ts'
import { createManualClock, entryOf, TENANT } from '../../support/stage-doubles.ts'

const mandate = { run: 'r', fence: '1' }
const reserve = (job: string, change: Partial<Journal> = {}): Journal => ({
  ...entryOf(TENANT, endedJob({ id: job })), at: 40, reason: '{"unitPriceMicros":"4"}', ...change,
})
const end = (job: string) => ({ ...reserve(job), type: 'settle', seq: 9, chargeMicros: 4 })

/** Redis that knows some fields of jobs by `job field`, and answers each `rebuild` in turn. */
function world (
  known: Readonly<Record<string, string>>, steps: readonly string[] = [],
  archived: readonly Job[] = []
) {
  const rebuilt: Rebuilt[] = []
  const left = [...steps]
  const made: number[] = []
  const parts: RebuildParts = {
    redis: {
      hmget: async (key: string, field: string) =>
        [known[`${key.split(':').at(-1)} ${field}`] ?? null],
    } as never,
    desk: {
      rebuild: async (_mandate, job) => {
        rebuilt.push(job)
        return (left.shift() ?? 'made') as 'made'
      },
    },
    archive: { findAll: async () => new Map(archived.map(job => [job.id, job])) },
    history: { listAll: async () => [] },
    emitter: { emit: async () => {} },
    clock: createManualClock(1_000),
    metrics: { count: (_name, _labels, more = 1) => { made.push(more) } },
  }
  return { parts, rebuilt, made }
}

function foldOf (open: readonly Journal[], ended: readonly string[] = []) {
  const fold = emptyFold({ seq: 0, openJobs: new Set() })
  for (const entry of open) fold.open.set(entry.job, entry)
  for (const job of ended) fold.ended.set(job, { reserve: reserve(job), end: end(job) })
  return fold
}

describe('the jobs of a journal', () => {
  it('are made where Redis lacks them, and counted again since they reserved', async () => {
    const { parts, rebuilt, made } = world({}, ['made', 'done', 'made'])
    const fold = foldOf([reserve('job_1', { at: 70 }), reserve('job_2')], ['job_3'])
    expect(await rebuildJobs(parts, mandate, fold)).toEqual({
      kind: 'done', made: 2, since: new Map([['job_1', 70], ['job_2', 40], ['job_3', 40]]),
    })
    expect(rebuilt.map(({ job, settled, isClosed }) => [job, settled?.seq, isClosed]))
      .toEqual([['job_1', undefined, false], ['job_2', undefined, false], ['job_3', 9, false]])
    expect(made).toEqual([2])
  })

  it('that ended are closed from the archive, or counted once more, however many', async () => {
    const ids = Array.from({ length: 250 }, (_, index) => `job_${index}`)
    const archived = ids.filter(id => id !== 'job_7').map(id => endedJob({ id }))
    const { parts, rebuilt, made } = world({}, [], archived)
    expect(await rebuildJobs(parts, mandate, foldOf([], ids)))
      .toEqual({ kind: 'done', made: 250, since: new Map([['job_7', 40]]) })
    expect(rebuilt.map(({ job }) => job)).toEqual(ids)
    expect(rebuilt.filter(({ isClosed }) => !isClosed).map(({ job }) => job)).toEqual(['job_7'])
    expect(made).toEqual([250])
  })

  it('that have ended in Redis, or ended and say too little, are left as they are', async () => {
    const { parts, rebuilt, made } = world({ 'job_1 ended': '1' })
    const fold = foldOf([], ['job_1', 'job_2'])
    fold.ended.set('job_2', { reserve: reserve('job_2', { reason: '' }), end: end('job_2') })
    expect(await rebuildJobs(parts, mandate, fold))
      .toEqual({ kind: 'done', made: 0, since: new Map() })
    expect([rebuilt, made]).toEqual([[], []])
  })

  it('that run and say too little must be in Redis', async () => {
    const fold = foldOf([reserve('job_1', { reason: '' })])
    expect(await rebuildJobs(world({ 'job_1 status': 'queued' }).parts, mandate, fold))
      .toEqual({ kind: 'done', made: 0, since: new Map([['job_1', 40]]) })
    expect(await rebuildJobs(world({}).parts, mandate, fold))
      .toEqual({ kind: 'faulty', faults: ['nothing says what the open job job_1 was'] })
  })

  it('are left to whoever has taken over', async () => {
    const open = world({}, ['moved'])
    expect(await rebuildJobs(open.parts, mandate, foldOf([reserve('job_1'), reserve('job_2')])))
      .toEqual({ kind: 'moved' })
    expect(open.rebuilt).toHaveLength(1)
    const ended = world({}, ['made', 'moved'])
    expect(await rebuildJobs(ended.parts, mandate, foldOf([reserve('job_1')], ['job_2'])))
      .toEqual({ kind: 'moved' })
  })
})
