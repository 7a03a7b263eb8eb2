import { receiversOf, type Subscriptions } from '../webhooks/endpoints.ts'
import type { Emitter } from '../runtime/engine/stage.ts'
import {
  DELIVERIES_RUN_KEY, DELIVERIES_UNTIL_KEY, type DeliveryHistory,
} from '../webhooks/deliveries.ts'
import { deliveryIdOf, eventIdOf, eventTypeOf } from '../webhooks/event.ts'
import type { Job } from '../jobs/job.ts'
import type { Clock } from '../runtime/platform/retry.ts'
import type { Log } from '../runtime/platform/log.ts'
import { type RedisClient, RUN_ID_LUA, script } from '../runtime/platform/redis.ts'
import type { Archive } from '../jobs/results/archive.ts'
import { settledOf } from '../jobs/results/finish-job.ts'

export type RepublishDeps = {
  readonly subscriptions: Subscriptions
  readonly history: Pick<DeliveryHistory, 'listAll'>
  readonly emitter: Pick<Emitter, 'emit'>
}

export type RestoreDeliveriesDeps = RepublishDeps & {
  readonly redis: RedisClient
  readonly archive: Pick<Archive, 'endedSince'>
  /** Redis time. */
  readonly clock: Clock
  readonly log: Pick<Log, 'warn'>
}

/** Longer than a delivery waits for its last attempt. */
const LONGEST_WAIT_MS = 4 * 86_400_000
/** How far `deliver` may be behind the end of a job. */
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

/**
 * Restores the deliveries that Redis may have lost, once per run of the server that has them: the
 * wallets may be on other servers and have lost nothing. Publishes the end events of jobs again
 * that ended since the queue was last known to be complete; `deliver` ignores those it still has.
 * Returns the number of jobs that were read.
 * @throws InfrastructureError when Redis, the archive or the brokers do not respond.
 */
export async function restoreDeliveries (
  deps: RestoreDeliveriesDeps, signal: AbortSignal
): Promise<number> {
  const { redis, archive, clock, log } = deps
  const read = script(redis, { name: 'read-deliveries', source: READ, numberOfKeys: 2 })
  const [run = '', restoredIn, until] =
    await read(KEYS, []) as readonly [string?, (string | null)?, (string | null)?]
  if (restoredIn === run) return 0
  const nowMs = clock.now()
  const sinceMs = until ? Number(until) - MAX_LAG_MS : nowMs - LONGEST_WAIT_MS
  let jobs = 0
  let batch: Job[] = []
  const publish = async () => {
    signal.throwIfAborted()
    await republishEnds(deps, batch)
    jobs += batch.length
    batch = []
  }
  for await (const job of archive.endedSince(sinceMs)) {
    batch.push(job)
    if (batch.length === JOBS_PER_BATCH) await publish()
  }
  await publish()
  await mark(redis, run, nowMs)
  if (jobs > 0) log.warn({ jobs, sinceMs }, 'deliveries of ended jobs restored')
  return jobs
}

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
    const type = eventTypeOf(status)
    const value = { tenant, job, type: type ?? '', tenth: 0, at }
    return type === undefined
      ? []
      : [{ topic: 'jobs.events' as const, lane, value, rows: undefined }]
  })
  if (events.length > 0) await deps.emitter.emit(events)
}

/** Records that Redis has all deliveries up to now, unless a restore of them is due. */
export async function recordDeliveries (
  { redis, clock }: Pick<RestoreDeliveriesDeps, 'redis' | 'clock'>
): Promise<void> {
  await mark(redis, '', clock.now())
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
    ({ topic: 'jobs.settled', lane: job.lane, value: settledOf(job), rows: undefined })))
}

/** The jobs whose end has a receiver, of which a delivery is not completed in the history. */
async function withOpenDeliveries (
  { history, subscriptions }: Pick<RepublishDeps, 'history' | 'subscriptions'>,
  jobs: readonly Job[]
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
  subscriptions: Subscriptions, { id, tenant, status, header, feed, endedAtMs }: Job
): Promise<readonly string[]> {
  const type = eventTypeOf(status)
  if (type === undefined) return []
  const event = eventIdOf(id, type)
  const endpoints = receiversOf(await subscriptions(tenant), type, endedAtMs)
  return [
    ...header.length > 0 || feed !== undefined ? [event] : [],
    ...endpoints.map(endpoint => deliveryIdOf(event, endpoint)),
  ]
}
