import type { Redis } from 'ioredis'
import { ACCEPTED_KEY_MS } from '../jobs/job-keys.ts'
import { jobKeys } from '../jobs/redis-keys.ts'
import type { Clock } from '../platform/clock.ts'
import type { TopicReader } from '../kafka/topic-reader.ts'
import type { Log } from '../platform/log.ts'
import type { Metrics } from '../platform/metrics.ts'
import { topicName } from '../platform/topics.ts'
import { ERASED_IN_KEY, ERASED_UNTIL_KEY } from './redis-keys.ts'

export type ReEraseDeps = {
  readonly redis: Pick<Redis, 'get' | 'set' | 'del'>
  readonly reader: TopicReader
  /** Redis time. */
  readonly clock: Clock
  readonly log: Pick<Log, 'warn'>
  readonly metrics: Pick<Metrics, 'count'>
}

/** A job that was erased on demand, and the time of its erasure (clock of the brokers, ms). */
type Erased = { readonly tenant: string, readonly job: string, readonly atMs: number }

/**
 * Repeats the erasures that the topic of keys records: an old file of Redis restores the erased
 * keys, and an empty Redis does not know of the erasures. Runs to its end once per run of the
 * server.
 * @throws InfrastructureError when Redis or the topic cannot be read.
 */
export async function reErase (
  deps: ReEraseDeps, run: string, signal: AbortSignal
): Promise<void> {
  const { redis, clock, log, metrics } = deps
  if (await redis.get(ERASED_IN_KEY) === run) return
  let deleted = 0
  for (const { tenant, job, atMs } of await erasedJobs(deps, signal)) {
    signal.throwIfAborted()
    const { dataKey, erased } = jobKeys(tenant, job)
    const leftMs = atMs + ACCEPTED_KEY_MS - clock.now()
    // Marked first: a restore of keys checks the mark after its write.
    if (leftMs > 0) await redis.set(erased, '1', 'PX', leftMs, 'NX')
    deleted += await redis.del(dataKey)
  }
  await redis.set(ERASED_IN_KEY, run)
  await recordErased(deps)
  if (deleted === 0) return
  metrics.count('recovery_actions_total', { kind: 'erasure' }, deleted)
  log.warn({ jobs: deleted }, 'data keys of erased jobs re-erased after a restore of Redis')
}

/**
 * Records that Redis has all erasures up to now, which shortens the next `reErase`. Called
 * periodically by a leader that has completed it in this run of the server.
 */
export async function recordErased (
  { redis, clock }: Pick<ReEraseDeps, 'redis' | 'clock'>
): Promise<void> {
  await redis.set(ERASED_UNTIL_KEY, String(clock.now()))
}

/** The jobs whose key was erased in the topic since Redis last had all erasures. */
async function erasedJobs (
  { redis, reader }: Pick<ReEraseDeps, 'redis' | 'reader'>, signal: AbortSignal
): Promise<Iterable<Erased>> {
  const erased = new Map<string, Erased>()
  const untilMs = await redis.get(ERASED_UNTIL_KEY)
  const sinceMs = untilMs === null ? undefined : Number(untilMs)
  await reader.read(topicName('job.keys'), messages => {
    for (const { key, value, headers: { tenant }, timestampMs: atMs } of messages) {
      if (value !== null || tenant === undefined) continue
      const job = key.toString()
      erased.set(job, { tenant, job, atMs })
    }
  }, { sinceMs, signal })
  return erased.values()
}
