import { describe, expect, it } from 'vitest'
import type { Emission } from '../../../services/runtime/engine/stage.ts'
import type { Job } from '../../../services/jobs/job.ts'
import { LostDeliveries, republish } from '../../../services/ledger/restore-deliveries.ts'
import { InfrastructureError } from '../../../services/runtime/platform/errors.ts'
import { endedJob, DELIVERED_JOB } from '../../support/webhooks/deliveries.ts'
import { endpointIdAt } from '../../support/webhooks/endpoints.ts'
import type { Attempt, AttemptOutcome } from '../../../services/webhooks/deliveries.ts'
import { eventIdOf } from '../../../services/webhooks/event.ts'

const NOW_MS = 10_000_000_000
const MINUTE_MS = 60_000
const { signal } = new AbortController()

type Call = readonly [command: string, text: string, keys: number, ...given: unknown[]]

/** Redis in a run, with the marks of the last restore. */
function setUp (
  { restoredIn = '', untilMs = '' }: { readonly restoredIn?: string, readonly untilMs?: string },
  jobs: readonly Job[] = []
) {
  const marks: unknown[][] = []
  const asked: number[] = []
  const emitted: Emission[] = []
  /** Of the partitions of `deliver`, and the time of Redis. */
  const state = { nowMs: NOW_MS, lags: [] as readonly (readonly [offset: number, lag: number])[] }
  const deps = {
    redis: {
      call: async (...[, text, keys, ...given]: Call) => {
        if (given.length === keys) return ['r2', restoredIn || null, untilMs || null]
        marks.push(given.slice(keys))
        return text
      },
    } as never,
    archive: {
      endedSince: async function * (endedMs: number) {
        asked.push(endedMs)
        yield * jobs
      },
    },
    deliverLags: async () => state.lags.map(([offset, lag], partition) => ({
      stage: 'deliver' as const, group: 'g', topic: 'jobs.settled', partition, offset, lag,
    })),
    clock: { now: () => state.nowMs },
    log: { warn: () => {} },
    history: { listAll: async () => [] },
    subscriptions: async () =>
      [{ endpoint: endpointIdAt(1, 'one'), events: ['job.completed'] as const }],
    emitter: { emit: async (all: readonly Emission[]) => { emitted.push(...all) } },
  }
  return { deps, marks, asked, emitted, state, deliveries: new LostDeliveries(deps) }
}

describe('deliveries', () => {
  it('are not restored twice in one run of their server', async () => {
    const { deliveries, asked, marks } = setUp({ restoredIn: 'r2', untilMs: '1' })
    expect(await deliveries.restore(signal)).toBe(0)
    expect([asked, marks]).toEqual([[], []])
  })

  it('are restored of jobs that ended since Redis had all of them, and before for a while',
    async () => {
      const { deliveries, asked, marks } =
        setUp({ restoredIn: 'r1', untilMs: String(NOW_MS - 1) })
      await deliveries.restore(signal)
      expect(asked).toEqual([NOW_MS - 1 - 10 * MINUTE_MS])
      // Those that were published again may be lost again.
      expect(marks).toEqual([['r2', NOW_MS - 1]])
    })

  it('are restored of the last four days at most, as after a loss of everything', async () => {
    for (const untilMs of ['', '1']) {
      const { deliveries, asked } = setUp({ untilMs })
      await deliveries.restore(signal)
      expect(asked).toEqual([NOW_MS - 4 * 24 * 60 * MINUTE_MS])
    }
  })

  it('of a feed go to webhook endpoints, and its results not to the partner again', async () => {
    const feed = { partner: 'acme', partition: 0 } as NonNullable<Job['feed']>
    const { deliveries, emitted } = setUp({}, [
      endedJob({ id: 'job_1', header: Buffer.from('h') }), endedJob({ id: 'job_2', feed }),
    ])
    expect(await deliveries.restore(signal)).toBe(2)
    expect(emitted.map(({ topic, value }) => [topic, value])).toEqual([
      ['jobs.settled', expect.objectContaining({ job: 'job_1' })],
      ['jobs.events', {
        tenant: endedJob().tenant,
        job: 'job_2',
        type: 'job.completed',
        tenth: 0,
        at: endedJob().endedAtMs,
      }],
    ])
  })

  it('are recorded as complete by a mark that a run without a restore does not get', async () => {
    const { deliveries, marks } = setUp({})
    await deliveries.record()
    expect(marks).toEqual([['', NOW_MS]])
  })

  it('are recorded as complete only as far as deliver has come, however far it is behind',
    async () => {
      const { deliveries, marks, state } = setUp({})
      const recordAt = async (minutes: number, ...lags: typeof state.lags) => {
        Object.assign(state, { nowMs: NOW_MS + minutes * MINUTE_MS, lags })
        await deliveries.record()
        return marks.splice(0).map(([, ms]) => (Number(ms) - NOW_MS) / MINUTE_MS)
      }
      expect(await recordAt(0, [5, 0], [2, 3])).toEqual([])
      expect(await recordAt(60, [9, 0], [4, 9])).toEqual([])
      expect(await recordAt(70, [9, 1], [5, 9])).toEqual([0])
      expect(await recordAt(80, [10, 0], [13, 5])).toEqual([])
      expect(await recordAt(90, [10, 0], [18, 0])).toEqual([90])
      // A restore of another leader is not known yet.
      await recordAt(91, [10, 0], [18, 1])
      deliveries.forget()
      expect(await recordAt(92, [10, 0], [19, 5])).toEqual([])
    })

  it('are recorded later while the brokers are away', async () => {
    const { deps, marks } = setUp({})
    const away = async () => { throw new InfrastructureError('away') }
    await new LostDeliveries({ ...deps, deliverLags: away }).record()
    expect(marks).toEqual([])
  })
})

const [ONE, OTHER] = [endpointIdAt(1, 'one'), endpointIdAt(1, 'other')]

const attemptOf = (outcome: AttemptOutcome, event = eventIdOf(DELIVERED_JOB, 'job.completed')) =>
  ({ event, outcome }) as Attempt

const jobWithHeader = (change: Partial<Job> = {}) =>
  endedJob({ header: Buffer.from('h'), ...change })

async function announced (
  attempts: readonly Attempt[], job = jobWithHeader(), endpoints: readonly string[] = []
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
  it('is announced until every endpoint that is subscribed has it', async () => {
    const event = eventIdOf(DELIVERED_JOB, 'job.completed')
    const job = jobWithHeader({ header: Buffer.alloc(0) })
    const known = async (...attempts: readonly Attempt[]) =>
      (await announced(attempts, job, [ONE, OTHER])).length
    const first = attemptOf('delivered', `${event}.${ONE}`)
    expect(await known()).toBe(1)
    expect(await known(first)).toBe(1)
    expect(await known(first, attemptOf('failed', `${event}.${OTHER}`))).toBe(1)
    expect(await known(first, attemptOf('gone', `${event}.${OTHER}`))).toBe(0)
    expect(await announced([], { ...job, status: 'failed' }, [ONE])).toEqual([])
  })
})
