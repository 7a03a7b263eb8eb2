import { describe, expect, it } from 'vitest'
import type { Job } from '../../../services/jobs/job.ts'
import { noteOf, runErase } from '../../../services/workspace/erase-command.ts'
import { eraseJobs, type EraseParts } from '../../../services/workspace/erase.ts'
import { createManualClock, JOB, TENANT } from '../../support/stage-doubles.ts'
import { closedJob, jobOf } from '../ingest/doubles.ts'

const wrapped = new Map([[JOB, [Buffer.from('wrapped')]]])
const options = { tenant: TENANT, jobs: [JOB], waitMs: 60_000, pollMs: 1_000 }
const NONE = {
  copiesInRedis: 0, copiesInTopic: 0, copiesInClickhouse: 0, copiesInDeadLetters: 0,
}

/** A job as it is at each look, and a topic that has so many copies at each. */
function setUp (looks: readonly (Job | undefined)[], copies: readonly number[] = [0]) {
  const clock = createManualClock(0)
  const steps: string[] = []
  let looked = 0
  let counted = 0
  const parts: EraseParts = {
    store: {
      read: async (_tenant, id) => {
        const job = looks[Math.min(looked++, looks.length - 1)]
        return job && { ...job, id }
      },
      cancel: async () => { steps.push('cancel'); return { kind: 'unknown' } },
    },
    findArchived: async () => undefined,
    keys: {
      remove: async () => { steps.push('remove'); return wrapped },
      removeCopies: async () => { steps.push('copies') },
      rewriteAof: async () => { steps.push('rewrite'); return 'rewritten' },
      copiesInRedis: async () => new Map(),
      copiesInTopic: async () => {
        const left = copies[Math.min(counted++, copies.length - 1)] ?? 0
        return left === 0 ? new Map() : new Map([[JOB, left]])
      },
      copiesInClickhouse: async () => new Map(),
      copiesInDeadLetters: async bytes => bytes === wrapped ? new Map() : new Map([[JOB, 1]]),
      writeTombstones: async ({ jobs }) => { steps.push(`tombstone of ${jobs.join()}`) },
    },
    now: clock.now,
    sleep: clock.sleep,
  }
  return { parts, steps, clock }
}

describe('erasing a job', () => {
  it('waits until nobody remembers its key any more', async () => {
    const { parts, steps, clock } = setUp([closedJob()])
    expect(await eraseJobs(parts, options)).toEqual({
      done: true, aof: 'rewritten', jobs: [{ job: JOB, status: 'completed', ...NONE }],
    })
    expect(steps).toEqual(['remove', 'rewrite', 'copies'])
    expect(clock.now()).toBe(5_000)
  })

  it('asks a running job once to end, and waits for that', async () => {
    const { parts, steps } = setUp([jobOf(), jobOf({ status: 'cancelling' }), closedJob()])
    expect((await eraseJobs(parts, options)).done).toBe(true)
    expect(steps).toEqual(['cancel', 'remove', 'rewrite', 'copies'])
  })

  it('takes several jobs by one rewrite and one deletion', async () => {
    const { parts, steps } = setUp([closedJob()])
    const erasure = await eraseJobs(parts, { ...options, jobs: [JOB, 'job_2'] })
    expect(erasure.jobs).toHaveLength(2)
    expect(steps).toEqual(['remove', 'rewrite', 'copies'])
  })

  it('erases nothing of a job that does not end in time, or does not exist', async () => {
    const { parts, steps } = setUp([jobOf()])
    await expect(eraseJobs(parts, options)).rejects.toThrow('Nothing is erased')
    expect(steps).toEqual(['cancel'])
    await expect(eraseJobs(setUp([undefined]).parts, options))
      .rejects.toThrow(`org_1 has no job ${JOB} in mode live`)
  })

  it('moves a quiet topic on until its copies are gone, or says how many are left', async () => {
    const soon = setUp([closedJob()], [2, 2, 0])
    expect((await eraseJobs(soon.parts, options)).done).toBe(true)
    const tombstone = `tombstone of ${JOB}`
    expect(soon.steps).toEqual(['remove', 'rewrite', tombstone, tombstone, 'copies'])
    const late = setUp([closedJob()], [1])
    const erasure = await eraseJobs(late.parts, { ...options, waitMs: 6_000 })
    expect(erasure).toMatchObject({ done: false, jobs: [{ ...NONE, copiesInTopic: 1 }] })
    expect(noteOf(erasure)).toContain('run the command again')
  })
})

describe('the command', () => {
  it('says what to type instead', async () => {
    const words = { org: 'org_1', job: JOB, mode: 'live' }
    await expect(runErase({}, { ...words, waitMinutes: 'x' })).rejects.toThrow('--wait-minutes')
    await expect(runErase({}, { ...words, mode: 'x', waitMinutes: '1' })).rejects.toThrow('--mode')
  })

  it('tells of a Redis that keeps snapshots and no append-only file', () => {
    const erasure = { done: true, jobs: [{ job: JOB, status: 'completed', ...NONE }] } as const
    expect(noteOf({ ...erasure, aof: 'none' })).toContain('snapshots')
    expect(noteOf({ ...erasure, aof: 'rewritten' })).toBe('Done.')
  })
})
