import { beforeEach, describe, expect, it } from 'vitest'
import type { JobEvent } from '../../schemas/types.ts'
import type { Job } from '../../services/jobs/job.ts'
import { LostDeliveries } from '../../services/ledger/restore-deliveries.ts'
import { InfrastructureError } from '../../services/runtime/platform/errors.ts'
import {
  type AttemptOutcome, DELIVERIES_RUN_KEY, DELIVERIES_UNTIL_KEY,
} from '../../services/webhooks/deliveries.ts'
import { toDeliveryId, deriveEventId } from '../../services/webhooks/event.ts'
import { codec } from '../support/clickhouse/results.ts'
import {
  createRecoveryEnvironment, type LedgerDeps, type RecoveryEnvironment,
} from '../support/recovery/recovery-environment.ts'
import { startRedis } from '../support/redis/redis.ts'
import { deliveryAttempt, endedJob } from '../support/webhooks/deliveries.ts'
import { endpointIdAt } from '../support/webhooks/endpoints.ts'

const { redis } = await startRedis()
const { signal } = new AbortController()
const MINUTE_MS = 60_000
const FOUR_DAYS_MS = 4 * 24 * 60 * MINUTE_MS
const [ONE, OTHER] = [endpointIdAt(1, 'one'), endpointIdAt(1, 'other')]

let environment: RecoveryEnvironment
/** Redis time. */
let nowMs: number
beforeEach(async () => {
  await redis.flushall()
  environment = createRecoveryEnvironment(redis)
  nowMs = 10_000_000_000
})

/** Deliveries as a ledger has them that has just started. */
const deliveriesOf = (more: Partial<LedgerDeps> = {}, endpoints: readonly string[] = [ONE]) =>
  new LostDeliveries({
    ...environment.deps,
    subscriptions: async () =>
      endpoints.map(endpoint => ({ endpoint, events: ['job.completed'] as const })),
    clock: { now: () => nowMs },
    ...more,
  })

/** Minutes from the beginning up to which Redis is known to have all of them. */
const untilMinutes = async () =>
  (Number(await redis.get(DELIVERIES_UNTIL_KEY)) - 10_000_000_000) / MINUTE_MS

describe('deliveries', () => {
  it.each([
    ['Redis had all of them, and before for a while', -1, -1 - 10 * MINUTE_MS],
    ['four days ago at most', 1 - 10_000_000_000, -FOUR_DAYS_MS],
    ['four days ago if Redis has lost everything', undefined, -FOUR_DAYS_MS],
  ])('are restored of jobs that ended since %s, once in a run', async (_, until, expected) => {
    const asked: number[] = []
    const archive: LedgerDeps['archive'] = {
      ...environment.deps.archive,
      endedSince: async function * (endedMs) {
        asked.push(endedMs - nowMs)
        yield * []
      },
    }
    if (until !== undefined) {
      await redis.mset(DELIVERIES_RUN_KEY, 'former', DELIVERIES_UNTIL_KEY, nowMs + until)
    }
    for (const leader of [1, 2]) {
      expect([leader, await deliveriesOf({ archive }).restore(signal)]).toEqual([leader, 0])
    }
    expect(asked).toEqual([expected])
    // Those that were published again may be lost again.
    expect(await untilMinutes() * MINUTE_MS).toBe(expected + 10 * MINUTE_MS)
  })

  it('of a feed go to webhook endpoints, and its results not to the partner again', async () => {
    const feed = { partner: 'acme', partition: 0 } as NonNullable<Job['feed']>
    const ended = { endedAtMs: nowMs - 1 }
    await environment.save([
      { job: endedJob({ ...ended, id: 'job_1', header: Buffer.from('h') }) },
      { job: endedJob({ ...ended, id: 'job_2', feed }) },
    ])
    expect(await deliveriesOf().restore(signal)).toBe(2)
    const jobs = (topic: 'jobs.settled' | 'jobs.events') => Promise.all(
      environment.bus.messages(topic).map(async ({ value }) =>
        await codec.decode(topic, value!) as JobEvent))
    expect(new Set((await jobs('jobs.settled')).map(({ job }) => job))).toEqual(new Set(['job_1']))
    expect((await jobs('jobs.events'))[0])
      .toMatchObject({ job: 'job_2', type: 'job.completed', tenth: 0, at: nowMs - 1 })
  })

  it('are recorded as complete only as far as deliver has come, however far it is behind',
    async () => {
      let lags: readonly (readonly [offset: number, lag: number])[] = []
      const deliveries = deliveriesOf({
        deliverLags: async () => lags.map(([offset, lag], partition) =>
          ({ stage: 'deliver', group: 'g', topic: 'jobs.settled', partition, offset, lag })),
      })
      const recordAt = async (minutes: number, ...more: typeof lags) => {
        [nowMs, lags] = [10_000_000_000 + minutes * MINUTE_MS, more]
        await deliveries.record()
        return await untilMinutes()
      }
      // Before they were restored nothing is recorded.
      await recordAt(0, [5, 0])
      expect(await redis.exists(DELIVERIES_UNTIL_KEY)).toBe(0)
      await deliveries.restore(signal)
      expect(await recordAt(0, [5, 0])).toBe(0)
      expect(await recordAt(5, [5, 0], [2, 3])).toBe(0)
      expect(await recordAt(60, [9, 0], [4, 9])).toBe(0)
      expect(await recordAt(70, [9, 1], [5, 9])).toBe(5)
      expect(await recordAt(80, [10, 0], [13, 5])).toBe(5)
      expect(await recordAt(85, [10, 1], [18, 5])).toBe(70)
      expect(await recordAt(90, [11, 0], [23, 0])).toBe(90)
      // A restore of another leader is not known yet.
      await recordAt(91, [11, 0], [23, 1])
      deliveries.forget()
      expect(await recordAt(92, [11, 0], [24, 5])).toBe(90)
    })

  it('are recorded later while the brokers are away', async () => {
    const deliveries =
      deliveriesOf({ deliverLags: async () => { throw new InfrastructureError('away') } })
    await deliveries.restore(signal)
    const before = await untilMinutes()
    nowMs += MINUTE_MS
    await deliveries.record()
    expect(await untilMinutes()).toBe(before)
  })

  it('of a job are announced until every endpoint that is subscribed has its end', async () => {
    const announced = async (
      attempts: readonly (readonly [string, AttemptOutcome])[], job: Partial<Job> = {}
    ) => {
      environment = createRecoveryEnvironment(redis)
      await redis.del(DELIVERIES_RUN_KEY)
      const ended = endedJob({ endedAtMs: nowMs - 1, ...job })
      await environment.save([{ job: ended }])
      const event = deriveEventId(ended.id, 'job.completed')
      environment.attempts.push(...attempts.map(([to, outcome]) =>
        deliveryAttempt({ event: toDeliveryId(event, to), outcome })))
      await deliveriesOf({}, [ONE, OTHER]).restore(signal)
      return environment.bus.messages('jobs.settled').length > 0
    }
    const first = [ONE, 'delivered'] as const
    expect(await announced([])).toBe(true)
    expect(await announced([first])).toBe(true)
    expect(await announced([first, [OTHER, 'failed']])).toBe(true)
    expect(await announced([first, [OTHER, 'gone']])).toBe(false)
    expect(await announced([], { status: 'failed' })).toBe(false)
  })
})
