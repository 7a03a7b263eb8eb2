import { findReceivers } from '../webhooks/endpoints.ts'
import type { Emitter } from '../runtime/engine/stage.ts'
import {
  DELIVERIES_RUN_KEY, DELIVERIES_UNTIL_KEY, type DeliveryHistory,
} from '../webhooks/deliveries.ts'
import { toDeliveryId, deriveEventId, findEventType } from '../webhooks/event.ts'
import type { Job } from '../jobs/job.ts'
import type { Clock } from '../runtime/platform/retry.ts'
import type { Log } from '../runtime/platform/log.ts'
import { type RedisClient, RUN_ID_LUA, script } from '../runtime/platform/redis.ts'
import type { Archive } from '../jobs/results/archive.ts'
import { toSettled } from '../jobs/results/finish-job.ts'
import type { GroupLag } from '../runtime/kafka/admin.ts'
import { partitionName } from '../runtime/kafka/bus.ts'
import { orIfUnavailable } from '../runtime/platform/errors.ts'
import type { Organizations } from '../accounts/organizations.ts'

export type RepublishDeps = {
  readonly subscriptions: Organizations['subscriptions']
  readonly history: Pick<DeliveryHistory, 'listAll'>
  readonly emitter: Pick<Emitter, 'emit'>
}

export type RestoreDeliveriesDeps = RepublishDeps & {
  readonly redis: RedisClient
  readonly archive: Pick<Archive, 'endedSince'>
  /** The committed offsets and lags of the consumer group of `deliver`. */
  readonly deliverLags: () => Promise<readonly GroupLag[]>
  /** Redis time. */
  readonly clock: Clock
  readonly log: Pick<Log, 'warn'>
}

/** Longer than a delivery waits for its last attempt. */
const LONGEST_WAIT_MS = 4 * 86_400_000
/** How long after the end of a job its message is in the topic. */
const MAX_LAG_MS = 600_000
const JOBS_PER_BATCH = 1_000

const READ = `return { ${RUN_ID_LUA}, redis.call('GET', KEYS[1]), redis.call('GET', KEYS[2]) }`

/** ARGV: a run id or '' for the one of the last restore, the time. */
const MARK = `
local run = ARGV[1] == '' and redis.call('GET', KEYS[1]) or ARGV[1]
if run == ${RUN_ID_LUA} then
  redis.call('SET', KEYS[1], run)
  redis.call('SET', KEYS[2], ARGV[2])
end`

/** The ends of the partitions of the topics of `deliver` at a Redis time. */
type TopicEnds = { readonly atMs: number, readonly ends: ReadonlyMap<string, number> }

/**
 * The deliveries that Redis may have lost, and up to when it has all of them: of each job that
 * ended before, the message was in the topics by then, and `deliver` has committed it, which it
 * does once the deliveries are in Redis. So it does not matter how far `deliver` is behind.
 */
export class LostDeliveries {
  readonly #deps: RestoreDeliveriesDeps
  /** What `deliver` must commit before the time of the last record can be moved there. */
  #next: TopicEnds | undefined

  constructor (deps: RestoreDeliveriesDeps) {
    this.#deps = deps
  }

  /**
   * Restores them, once per run of the server that has them: the wallets may be on other servers
   * and have lost nothing. Publishes the end events of jobs again that ended since the queue was
   * last known to be complete; `deliver` ignores those it still has. It is complete again once
   * `deliver` has committed these messages. Returns the number of jobs that were read.
   * @throws InfrastructureError when Redis, the archive or the brokers do not respond.
   */
  async restore (signal: AbortSignal): Promise<number> {
    const { redis, archive, clock, log } = this.#deps
    const read = script(redis, { name: 'read-deliveries', source: READ, numberOfKeys: 2 })
    const [run = '', restoredIn, until] =
      await read(KEYS, []) as readonly [string?, (string | null)?, (string | null)?]
    if (restoredIn === run) return 0
    this.forget()
    const oldestMs = clock.now() - LONGEST_WAIT_MS
    const sinceMs = until ? Math.max(Number(until) - MAX_LAG_MS, oldestMs) : oldestMs
    let jobs = 0
    let batch: Job[] = []
    const publish = async () => {
      signal.throwIfAborted()
      await republishEnds(this.#deps, batch)
      jobs += batch.length
      batch = []
    }
    for await (const job of archive.endedSince(sinceMs)) {
      batch.push(job)
      if (batch.length === JOBS_PER_BATCH) await publish()
    }
    await publish()
    await mark(redis, run, sinceMs + MAX_LAG_MS)
    if (jobs > 0) log.warn({ jobs, sinceMs }, 'deliveries of ended jobs restored')
    return jobs
  }

  /** Records up to when Redis has all deliveries, unless a restore of them is due. */
  async record (): Promise<void> {
    const { redis, clock, deliverLags } = this.#deps
    const atMs = clock.now()
    const lags = await deliverLags().catch(orIfUnavailable(undefined))
    if (lags === undefined) return
    const { ends, atMs: untilMs } = this.#next ?? { ends: toEnds(lags), atMs }
    if (lags.every(lag => lag.lag === 0)) {
      this.forget()
      await mark(redis, '', atMs)
    } else if (lags.every(lag => lag.offset >= (ends.get(partitionName(lag)) ?? 0))) {
      this.#next = { ends: toEnds(lags), atMs }
      await mark(redis, '', untilMs)
    } else this.#next = { ends, atMs: untilMs }
  }

  /** Another ledger may restore deliveries from here on. */
  forget (): void {
    this.#next = undefined
  }
}

const toEnds = (lags: readonly GroupLag[]): TopicEnds['ends'] =>
  new Map(lags.map(lag => [partitionName(lag), lag.offset + lag.lag]))

/**
 * The ends of jobs of feeds go to webhook endpoints alone: `publish` has not lost anything, and
 * would send their results to partners again.
 */
async function republishEnds (deps: RepublishDeps, jobs: readonly Job[]): Promise<void> {
  await republish(deps, jobs.filter(({ feed }) => feed === undefined))
  const ofFeeds = jobs.flatMap(({ feed, ...job }) =>
    feed === undefined ? [] : [{ ...job, header: Buffer.alloc(0) }])
  const open = await withOpenDeliveries(deps, ofFeeds)
  const events = open.flatMap(({ tenant, id: job, status, lane, endedAtMs: at }) => {
    const type = findEventType(status)
    const value = { tenant, job, type: type ?? '', tenth: 0, at }
    return type === undefined
      ? []
      : [{ topic: 'jobs.events' as const, lane, value, rows: undefined }]
  })
  if (events.length > 0) await deps.emitter.emit(events)
}

const KEYS = [DELIVERIES_RUN_KEY, DELIVERIES_UNTIL_KEY]

async function mark (redis: RedisClient, run: string, nowMs: number): Promise<void> {
  await script(redis, { name: 'mark-deliveries', source: MARK, numberOfKeys: 2 })(
    KEYS, [run, nowMs])
}

/**
 * Republishes the end events of jobs that ended before Redis was lost, except jobs without a
 * receiver and events all of whose deliveries are completed. Redis lost pending deliveries, and
 * whether an event was produced is unknown. Completed deliveries are in the history; consumers know
 * repeats by event id.
 */
export async function republish (deps: RepublishDeps, jobs: readonly Job[]): Promise<void> {
  const open = await withOpenDeliveries(deps, jobs)
  if (open.length === 0) return
  await deps.emitter.emit(open.map(job =>
    ({ topic: 'jobs.settled', lane: job.lane, value: toSettled(job), rows: undefined })))
}

/** The jobs whose end has a receiver, of which a delivery is not completed in the history. */
async function withOpenDeliveries (
  { history, subscriptions }: RepublishDeps, jobs: readonly Job[]
): Promise<readonly Job[]> {
  const all = await Promise.all(jobs.map(async job =>
    [job, await expectedDeliveries(subscriptions, job)] as const))
  const expected = all.filter(([, deliveries]) => deliveries.length > 0)
  if (expected.length === 0) return []
  const tenants = [...new Set(expected.map(([{ tenant }]) => tenant))]
  const attempts = await history.listAll(tenants, expected.map(([{ id }]) => id))
  const last = new Map(attempts.map(({ event, outcome }) => [event, outcome]))
  return expected.filter(([, deliveries]) =>
    deliveries.some(id => (last.get(id) ?? 'failed') === 'failed')).map(([job]) => job)
}

/** The deliveries of the end of a job, by id: to its own receiver, and to subscribed endpoints. */
async function expectedDeliveries (
  subscriptions: Organizations['subscriptions'],
  { id, tenant, status, header, feed, endedAtMs }: Job
): Promise<readonly string[]> {
  const type = findEventType(status)
  if (type === undefined) return []
  const event = deriveEventId(id, type)
  const endpoints = findReceivers(await subscriptions(tenant), type, endedAtMs)
  return [
    ...header.length > 0 || feed !== undefined ? [event] : [],
    ...endpoints.map(endpoint => toDeliveryId(event, endpoint)),
  ]
}
