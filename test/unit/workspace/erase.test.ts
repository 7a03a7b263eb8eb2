import { describe, expect, it } from 'vitest'
import type { Job } from '../../../services/jobs/job.ts'
import { noteOf, runErase } from '../../../services/workspace/erase-command.ts'
import { eraseJob, type EraseParts } from '../../../services/workspace/erase.ts'
import { createManualClock, JOB, TENANT } from '../../support/stage-doubles.ts'
import { closedJob, jobOf } from '../ingest/doubles.ts'

const wrapped = [Buffer.from('wrapped')]
const options = { tenant: TENANT, job: JOB, waitMs: 60_000, pollMs: 1_000 }

/** A job as it is at each look, and a topic that has so many copies at each. */
function setUp (looks: readonly (Job | undefined)[], copies: readonly number[] = [0]) {
  const clock = createManualClock(0)
  const steps: string[] = []
  let looked = 0
  let counted = 0
  const parts: EraseParts = {
    store: {
      read: async () => looks[Math.min(looked++, looks.length - 1)],
      cancel: async () => { steps.push('cancel'); return { kind: 'unknown' } },
    },
    findArchived: async () => undefined,
    key: {
      remove: async () => { steps.push('remove'); return wrapped },
      rewriteAof: async () => { steps.push('rewrite'); return 'rewritten' },
      isInRedis: async () => false,
      copiesInTopic: async () => copies[Math.min(counted++, copies.length - 1)] ?? 0,
      copiesInDeadLetters: async (_job, bytes) => bytes === wrapped ? 0 : 1,
      writeTombstone: async () => { steps.push('tombstone') },
    },
    now: clock.now,
    sleep: clock.sleep,
  }
  return { parts, steps, clock }
}

describe('erasing a job', () => {
  it('waits until nobody remembers its key any more', async () => {
    const { parts, steps, clock } = setUp([closedJob()])
    expect(await eraseJob(parts, options)).toEqual({
      job: JOB,
      status: 'completed',
      done: true,
      redis: 'gone',
      aof: 'rewritten',
      copiesInTopic: 0,
      copiesInDeadLetters: 0,
    })
    expect(steps).toEqual(['remove', 'rewrite'])
    expect(clock.now()).toBe(5_000)
  })

  it('asks a running job once to end, and waits for that', async () => {
    const { parts, steps } = setUp([jobOf(), jobOf({ status: 'cancelling' }), closedJob()])
    expect((await eraseJob(parts, options)).done).toBe(true)
    expect(steps).toEqual(['cancel', 'remove', 'rewrite'])
  })

  it('erases nothing of a job that does not end in time, or does not exist', async () => {
    const { parts, steps } = setUp([jobOf()])
    await expect(eraseJob(parts, options)).rejects.toThrow('has not ended yet; nothing is erased')
    expect(steps).toEqual(['cancel'])
    await expect(eraseJob(setUp([undefined]).parts, options))
      .rejects.toThrow(`org_1 has no job ${JOB} in mode live`)
  })

  it('moves a quiet topic on until its copies are gone, or says how many are left', async () => {
    const soon = setUp([closedJob()], [2, 2, 0])
    expect((await eraseJob(soon.parts, options)).done).toBe(true)
    expect(soon.steps).toEqual(['remove', 'rewrite', 'tombstone', 'tombstone'])
    const late = setUp([closedJob()], [1])
    const erasure = await eraseJob(late.parts, { ...options, waitMs: 6_000 })
    expect(erasure).toMatchObject({ done: false, redis: 'gone', copiesInTopic: 1 })
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
    const erasure = {
      job: JOB,
      status: 'completed',
      done: true,
      redis: 'gone',
      copiesInTopic: 0,
      copiesInDeadLetters: 0,
    } as const
    expect(noteOf({ ...erasure, aof: 'none' })).toContain('snapshots')
    expect(noteOf({ ...erasure, aof: 'rewritten' })).toBe('Done.')
  })
})
