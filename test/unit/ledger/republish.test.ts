import { describe, expect, it } from 'vitest'
import type { Attempt, AttemptOutcome } from '../../../services/jobs/delivery-history.ts'
import type { Job } from '../../../services/jobs/job.ts'
import { eventIdOf } from '../../../services/jobs/events.ts'
import { republish } from '../../../services/ledger/rebuild-jobs.ts'
import type { Emission } from '../../../services/engine/stage.ts'
import { settledOf } from '../../../services/results/finish-job.ts'
import { DELIVERED_JOB, endedJob as anyJob } from '../../support/deliveries.ts'
import { endpointIdAt } from '../../support/endpoints.ts'

const [ONE, OTHER] = [endpointIdAt(1, 'one'), endpointIdAt(1, 'other')]

const attemptOf = (outcome: AttemptOutcome, event = eventIdOf(DELIVERED_JOB, 'job.completed')) =>
  ({ event, outcome }) as Attempt

const endedJob = (change: Partial<Job> = {}) => anyJob({ header: Buffer.from('h'), ...change })

async function announced (
  attempts: readonly Attempt[], job = endedJob(), endpoints: readonly string[] = []
) {
  const emitted: Emission[] = []
  await republish({
    history: { listAll: async () => attempts },
    subscriptions: async () => endpoints.map(endpoint =>
      ({ endpoint, events: ['job.completed'] as const })),
    emitter: { emit: async (all) => { emitted.push(...all) } },
  }, [job])
  return emitted
}

describe('the event of a job that ended before Redis was lost', () => {
  it('is announced again while its delivery has not come to its end', async () => {
    const settled = {
      topic: 'jobs.settled', lane: 'small', value: settledOf(endedJob()), rows: undefined,
    }
    expect(await announced([])).toEqual([settled])
    expect(await announced([attemptOf('failed')])).toEqual([settled])
    expect(await announced([attemptOf('delivered', 'evt_of_another')])).toEqual([settled])
  })

  it('is left alone once it was delivered or given up, or when there is none', async () => {
    expect(await announced([attemptOf('failed'), attemptOf('delivered')])).toEqual([])
    expect(await announced([attemptOf('exhausted')])).toEqual([])
    expect(await announced([], endedJob({ status: 'verifying' }))).toEqual([])
    expect(await announced([], endedJob({ header: Buffer.alloc(0) }))).toEqual([])
  })

  it('is announced until every endpoint that is subscribed has it', async () => {
    const event = eventIdOf(DELIVERED_JOB, 'job.completed')
    const job = endedJob({ header: Buffer.alloc(0) })
    const known = async (...attempts: readonly Attempt[]) =>
      (await announced(attempts, job, [ONE, OTHER])).length
    const first = attemptOf('delivered', `${event}.${ONE}`)
    expect(await known()).toBe(1)
    expect(await known(first)).toBe(1)
    expect(await known(first, attemptOf('failed', `${event}.${OTHER}`))).toBe(1)
    expect(await known(first, attemptOf('gone', `${event}.${OTHER}`))).toBe(0)
    expect(await announced([], { ...job, status: 'failed' }, [ONE])).toEqual([])
  })

  it('is not announced for an endpoint that was created later', async () => {
    const job = endedJob({ header: Buffer.alloc(0) })
    const later = endpointIdAt(job.endedAtMs + 1, 'later')
    expect(await announced([], job, [later])).toEqual([])
  })
})
