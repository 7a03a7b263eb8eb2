import { describe, expect, it } from 'vitest'
import type { Job } from '../../../services/jobs/job.ts'
import { createAdminProgram } from '../../../services/admin/program.ts'
import { type EraseDeps, eraseJobs, erasureNote } from '../../../services/admin/erase-jobs.ts'
import { createManualClock, JOB, TENANT } from '../../support/stage-doubles.ts'
import { closedJob, jobOf } from '../ingest/doubles.ts'

const wrapped = new Map([[JOB, [Buffer.from('wrapped')]]])
const options = { tenant: TENANT, jobs: [JOB], waitMs: 60_000, pollMs: 1_000 }
const NONE = {
  copiesInRedis: 0, copiesInTopic: 0, copiesInClickhouse: 0, copiesInDeadLetters: 0,
}

/** The state of the job at each poll, and the number of copies in the topic at each poll. */
function setUp (states: readonly (Job | undefined)[], copies: readonly number[] = [0]) {
  const clock = createManualClock(0)
  const steps: string[] = []
  let polled = 0
  let counted = 0
  const deps: EraseDeps = {
    store: {
      read: async (_tenant, id) => {
        const job = states[Math.min(polled++, states.length - 1)]
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
      destroy: async () => {},
      complete: async ({ jobs }) => { if (jobs.length > 0) steps.push(`complete ${jobs.join()}`) },
      findInTopic: async () => undefined,
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
  return { deps, steps, clock }
}

describe('erasing a job', () => {
  it('waits until no process has its key in memory', async () => {
    const { deps, steps, clock } = setUp([closedJob()])
    expect(await eraseJobs(deps, options)).toEqual({
      done: true, aof: 'rewritten', jobs: [{ job: JOB, status: 'completed', ...NONE }],
    })
    expect(steps).toEqual(['remove', 'rewrite', 'copies', `complete ${JOB}`])
    expect(clock.now()).toBe(5_000)
  })

  it('cancels a running job once, and waits until it is closed', async () => {
    const { deps, steps } = setUp([jobOf(), jobOf({ status: 'cancelling' }), closedJob()])
    expect((await eraseJobs(deps, options)).done).toBe(true)
    expect(steps).toEqual(['cancel', 'remove', 'rewrite', 'copies', `complete ${JOB}`])
  })

  it('erases several jobs with one rewrite and one deletion', async () => {
    const { deps, steps } = setUp([closedJob()])
    const erasure = await eraseJobs(deps, { ...options, jobs: [JOB, 'job_2'] })
    expect(erasure.jobs).toHaveLength(2)
    expect(steps).toEqual(['remove', 'rewrite', 'copies', `complete ${JOB},job_2`])
  })

  it('erases nothing when a job does not end in time or does not exist', async () => {
    const { deps, steps } = setUp([jobOf()])
    await expect(eraseJobs(deps, options)).rejects.toThrow('Nothing is erased')
    expect(steps).toEqual(['cancel'])
    await expect(eraseJobs(setUp([undefined]).deps, options))
      .rejects.toThrow(`org_1 has no job ${JOB} in mode live`)
  })

  it('writes tombstones until the topic is compacted, or reports remaining copies', async () => {
    const soon = setUp([closedJob()], [2, 2, 0])
    expect((await eraseJobs(soon.deps, options)).done).toBe(true)
    const tombstone = `tombstone of ${JOB}`
    expect(soon.steps).toEqual([
      'remove', 'rewrite', tombstone, tombstone, 'copies', `complete ${JOB}`,
    ])
    const late = setUp([closedJob()], [1])
    const erasure = await eraseJobs(late.deps, { ...options, waitMs: 6_000 })
    expect(erasure).toMatchObject({ done: false, jobs: [{ ...NONE, copiesInTopic: 1 }] })
    expect(erasureNote(erasure)).toContain('run the command again')
  })
})

describe('the command "job erase"', () => {
  it('rejects invalid options', async () => {
    const eraseWith = (...words: readonly string[]) => createAdminProgram({ print: () => {} })
      .parseAsync(['job', 'erase', '--org', 'org_1', '--job', JOB, ...words], { from: 'user' })
    await expect(eraseWith('--wait-minutes', 'x')).rejects.toThrow('--wait-minutes')
    await expect(eraseWith('--mode', 'x')).rejects.toThrow('--mode')
  })

  it('mentions snapshots when Redis keeps no append-only file', () => {
    const erasure = { done: true, jobs: [{ job: JOB, status: 'completed', ...NONE }] } as const
    expect(erasureNote({ ...erasure, aof: 'none' })).toContain('snapshots')
    expect(erasureNote({ ...erasure, aof: 'rewritten' })).toBe('Done.')
  })
})
