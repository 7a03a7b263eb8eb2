import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import type { Redis } from 'ioredis'
import { startRedis } from '../support/redis/redis.ts'
import { EVENT_TYPES, type EventBody } from '../../schemas/api/webhooks.ts'
import type { EventSubscription } from '../../services/accounts/organizations.ts'
import { type AttemptDeps, makeAttempt } from '../../services/deliver/attempt.ts'
import type { Answer } from '../../services/deliver/sender.ts'
import { createDeliverStage } from '../../services/deliver/main.ts'
import type { Incoming } from '../../services/runtime/engine/stage.ts'
import { createDeliveries, type Deliveries } from '../../services/webhooks/deliveries.ts'
import { partsOfDelivery } from '../../services/webhooks/event.ts'
import type { Job } from '../../services/jobs/job.ts'
import { SettleStage } from '../../services/settle/main.ts'
import {
  arrived, blockEmission, codec, createBlocksDouble, live, messageCodec,
} from '../support/clickhouse/results.ts'
import { DELIVERED_TENANT, endedJob } from '../support/webhooks/deliveries.ts'
import { endpointIdAt, endpointOf } from '../support/webhooks/endpoints.ts'

/** Rows of the job of a scene. */
const ROWS = 20

/** The endpoint of every event, and that of the end alone. */
const [ALL, END] = [endpointIdAt(1, 'all'), endpointIdAt(1, 'end')]

const SUBSCRIPTIONS: readonly EventSubscription[] = [
  { endpoint: ALL, events: EVENT_TYPES },
  { endpoint: END, events: ['job.completed', 'job.failed', 'job.cancelled'] },
]
const key = randomBytes(32)

/** What of the job a block has makes no difference: the store answers how many rows are counted. */
const block = await arrived(blockEmission(
  { chunk: 0, chunks: 1, firstRow: 0, rows: 2, totalRows: 2 }, [[0, live('a')]]))

type Message = Incoming<'jobs.settled' | 'jobs.events'>

const runningJob = (number: number): Job => endedJob({
  id: `job_${number}`,
  status: 'verifying',
  ended: false,
  closed: false,
  preflight: { ...endedJob().preflight, totalRows: ROWS },
  counts: { ...endedJob().counts, finishedRows: 0 },
  events: ['job.accepted', 'job.progress'],
})

/** A request to an endpoint; `isLate` after the end of the job was queued. */
type Received = { readonly to: string, readonly body: EventBody, readonly isLate: boolean }

/**
 * A job with two endpoints, one of them for its end alone, from the count of its rows to the
 * requests. Any part may be restarted, and any message read again.
 */
function createEventScene (redis: Redis, number: number) {
  const deliveries = createDeliveries(redis)
  const settling = createSettling(number)
  const sent: Received[] = []
  let endQueued = false
  const stage = createDeliverStage({
    deliveries,
    keys: { get: async () => key },
    subscriptions: async tenant => tenant === DELIVERED_TENANT ? SUBSCRIPTIONS : [],
    wake: () => {},
    batch: 10,
  })
  const attempt = createAttempts({
    deliveries,
    findJob: async () => ({ ...settling.job(), closed: settling.job().ended }),
    onSent: (to, body) => { sent.push({ to, body, isLate: endQueued }) },
  })
  return {
    sent,
    advance: settling.advance,
    restartSettle: settling.restart,
    attempt,
    /** Reads the last messages, of which the first ones were read before. */
    deliver: async (count: number) => {
      const some = settling.messages.slice(-count)
      await stage.decide(some, new AbortController().signal)
      endQueued ||= some.some(({ topic }) => topic === 'jobs.settled')
    },
    /** Endpoint and type of every delivery that arrived. */
    delivered: async () => [...(await deliveries.unshipped(1_000)).values()]
      .filter(({ outcome }) => outcome === 'delivered')
      .map(({ event, type }) => [partsOfDelivery(event).endpoint, type] as const),
  }
}

/** What settle counts and emits. */
function createSettling (number: number) {
  const messages: Message[] = []
  let job = runningJob(number)
  const start = () => new SettleStage({
    batch: 1,
    batchBytes: 1,
    clock: { now: () => 0 },
    store: {
      tallyAll: async () => [
        { kind: 'counted', ended: job.ended, job, entry: undefined, manifest: [] },
      ],
      close: async () => true,
      read: async () => job,
      readWithManifest: async () => undefined,
    },
    blocks: createBlocksDouble(),
    archive: { save: async () => {} },
    saveBlocksAndRecords: async () => {},
    messageCodec,
    codec,
  })
  let settle = start()
  const emit = async () => {
    const [decision] = await settle.decide([block])
    messages.push(...decision?.emits.map(({ topic, value }) =>
      ({ topic, value, raw: { headers: {} } }) as never) ?? [])
    await decision?.afterProduced?.()
  }
  return {
    messages,
    job: () => job,
    advance: async (rows: number) => {
      if (job.ended) return
      const finishedRows = Math.min(ROWS, job.counts.finishedRows + rows)
      const end = { status: 'completed', ended: true } as const
      const counts = { ...job.counts, finishedRows }
      job = { ...job, counts, ...finishedRows === ROWS && end }
      await emit()
    },
    /** A restarted settle reads its last block again. */
    restart: async () => {
      settle = start()
      await emit()
    },
  }
}

const SIGNING_SECRET = `secret_${Buffer.alloc(32, 5).toString('base64')}`
const secretsOf = (secret: string) => ({ active: async () => [secret], show: async () => secret })

type Attempts = Pick<AttemptDeps, 'findJob'> & {
  readonly deliveries: Deliveries
  readonly onSent: (to: string, body: EventBody) => void
}

/** Makes the attempts that are due; resolves to their number. */
function createAttempts ({ deliveries, findJob, onSent }: Attempts) {
  return async (isAnswered: boolean): Promise<number> => {
    const answer: Answer = isAnswered
      ? { kind: 'answered', status: 200, retryAfterMs: undefined }
      : { kind: 'failed', reason: 'timeout' }
    const deps: AttemptDeps = {
      deliveries,
      findJob,
      keys: { get: async () => key },
      secrets: secretsOf(SIGNING_SECRET),
      signingKeys: secretsOf(SIGNING_SECRET),
      endpoints: { current: async (_tenant, id) => endpointOf({ id, url: `https://${id}/` }) },
      takeToken: () => 0,
      log: { warn: () => {} },
      metrics: { count: () => {}, observe: () => {} },
      send: async (url, { body }) => {
        onSent(new URL(url).hostname, JSON.parse(body) as EventBody)
        return { answer, durationMs: 1 }
      },
      // A retry is due at once.
      clock: { now: () => Date.now() - 1_000 },
      waitsMs: Array(50).fill(0),
      slowAfterMs: 1_000,
    }
    const limits = { priority: 'quick', limit: 10, leaseMs: 60_000, tenantSlots: 100 } as const
    const claims = await deliveries.claim(limits)
    await Promise.all(claims.map(claim => makeAttempt(deps, claim)))
    return claims.length
  }
}

const { redis } = await startRedis()
const RUNS = 40

it('each subscribed endpoint gets one end event, and progress that only grows', async () => {
  const step = fc.oneof(
    fc.record({ do: fc.constant('advance' as const), rows: fc.integer({ min: 1, max: 6 }) }),
    fc.record({ do: fc.constant('deliver' as const), from: fc.integer({ min: 1, max: 5 }) }),
    fc.record({ do: fc.constant('attempt' as const), isAnswered: fc.boolean() }),
    fc.record({ do: fc.constant('restart' as const) })
  )
  let scenes = 0
  await fc.assert(fc.asyncProperty(fc.array(step, { maxLength: 30 }), async steps => {
    await redis.flushall()
    const scene = createEventScene(redis, ++scenes)
    for (const one of steps) {
      if (one.do === 'advance') await scene.advance(one.rows)
      if (one.do === 'deliver') await scene.deliver(one.from)
      if (one.do === 'attempt') await scene.attempt(one.isAnswered)
      if (one.do === 'restart') await scene.restartSettle()
    }
    await scene.advance(ROWS)
    await scene.deliver(1_000)
    while (await scene.attempt(true) > 0);
    const delivered = await scene.delivered()
    const ends = delivered.filter(([, type]) => type === 'job.completed')
    expect(ends.map(([endpoint]) => endpoint).sort()).toEqual([ALL, END])
    expect(delivered.filter(([to, type]) => to === END && type !== 'job.completed')).toEqual([])
    const progress = scene.sent.filter(({ body }) => body.type === 'job.progress')
    expect(progress.filter(({ isLate }) => isLate)).toEqual([])
    const percents = progress.map(({ body }) => (body.data as { progressPercent: number })
      .progressPercent)
    expect(percents).toEqual(percents.toSorted((a, b) => a - b))
  }), { numRuns: RUNS })
})
