import type { Redis } from 'ioredis'
import type { Keys } from '../../schemas/types.ts'
import { ACCEPTED_KEY_MS } from '../jobs/job-keys.ts'
import { markErased, queueErasure } from '../jobs/erasures.ts'
import { jobKeys } from '../jobs/redis-keys.ts'
import { tombstoneTermsOf, type TombstoneTerms } from '../jobs/wrapped-keys.ts'
import type { Codec } from '../kafka/registry.ts'
import type { TopicReader } from '../kafka/topic-reader.ts'
import type { Clock } from '../platform/clock.ts'
import type { Log } from '../platform/log.ts'
import type { Metrics } from '../platform/metrics.ts'
import { topicName } from '../platform/topics.ts'
import { ERASED_IN_KEY, ERASED_UNTIL_KEY } from './redis-keys.ts'

type RestoreKeysDeps = {
  readonly redis: Pick<Redis, 'set' | 'pexpire' | 'exists' | 'del'>
  readonly reader: TopicReader
  readonly codec: Pick<Codec, 'decode'>
  readonly clock: Clock
  readonly metrics: Pick<Metrics, 'count'>
}

export type RepairKeysDeps = RestoreKeysDeps & ReEraseDeps

/** Keys of jobs to repair; `run` is undefined if no wallet is locked. */
type Loss = {
  readonly run: string | undefined
  readonly missing: ReadonlyMap<string, MissingKey>
}

/** An accepted job whose data key Redis may lack, and the time of its reservation. */
export type MissingKey = { readonly tenant: string, readonly atMs: number }

/**
 * Restores the data keys of jobs from their topic. Erases erased jobs first, so that no process
 * reads keys that an old file of Redis has restored.
 * @throws InfrastructureError when Redis or the topic cannot be read.
 */
export async function repairKeys (
  deps: RepairKeysDeps, { run, missing }: Loss, signal: AbortSignal
): Promise<void> {
  if (run !== undefined) await reErase(deps, run, signal)
  await restoreKeys(deps, missing, signal)
}

/**
 * Restores the wrapped data keys that open the results of jobs, for as long as the key of any
 * accepted job is kept. A job that was erased in the topic stays erased, and an existing key stays
 * as it is.
 */
export async function restoreKeys (
  { redis, reader, codec, clock, metrics }: RestoreKeysDeps,
  missing: ReadonlyMap<string, MissingKey>, signal: AbortSignal
): Promise<void> {
  if (missing.size === 0) return
  let sinceMs = Infinity
  for (const { atMs } of missing.values()) sinceMs = Math.min(sinceMs, atMs)
  const newest = new Map<string, Buffer>()
  // An erasure is final: a key after it is a replayed message.
  const erasedJobs = new Set<string>()
  await reader.read(topicName('job.keys'), async messages => {
    for (const { key, value } of messages) {
      const job = key.toString()
      if (!missing.has(job)) continue
      if (value === null) {
        erasedJobs.add(job)
        continue
      }
      const { tenant, wrapped } = await codec.decode('job.keys', value) as Keys
      if (tenant === missing.get(job)?.tenant) newest.set(job, wrapped)
    }
  }, { sinceMs, signal })
  const found = [...missing].flatMap(([job, key]) => {
    const wrapped = erasedJobs.has(job) ? undefined : newest.get(job)
    return wrapped === undefined ? [] : [{ job, wrapped, ...key }]
  })
  let restored = 0
  for (let from = 0; from < found.length; from += KEYS_PER_BATCH) {
    const batch = found.slice(from, from + KEYS_PER_BATCH)
    const isRestored = await Promise.all(batch.map(key => restoreKey({ redis, clock }, key)))
    restored += isRestored.filter(Boolean).length
  }
  metrics.count('recovery_actions_total', { kind: 'key' }, restored)
}

/** Keys whose commands are sent together, in one round trip. */
const KEYS_PER_BATCH = 500

type FoundKey = MissingKey & { readonly job: string, readonly wrapped: Buffer }

/** Restores a key unless it expired or its job was erased; returns whether Redis has it. */
async function restoreKey (
  { redis, clock }: Pick<RestoreKeysDeps, 'redis' | 'clock'>,
  { tenant, job, atMs, wrapped }: FoundKey
): Promise<boolean> {
  const leftMs = atMs + ACCEPTED_KEY_MS - clock.now()
  if (leftMs <= 0) return false
  const { dataKey, erased } = jobKeys(tenant, job)
  // Redis executes them in this order. An old file may have the key with the short expiry from
  // before the job was accepted. An erasure during the read marks the job before it deletes the
  // key.
  const [, , isErased] = await Promise.all([
    redis.set(dataKey, wrapped, 'PX', leftMs, 'NX'),
    redis.pexpire(dataKey, leftMs, 'GT'),
    redis.exists(erased),
  ])
  if (isErased === 0) return true
  await redis.del(dataKey)
  return false
}

type ReEraseDeps = {
  readonly redis: Pick<Redis, 'get' | 'set' | 'del' | 'zadd'>
  readonly reader: TopicReader
  /** Redis time. */
  readonly clock: Clock
  readonly log: Pick<Log, 'warn'>
  readonly metrics: Pick<Metrics, 'count'>
}

/** A job that was erased on demand, and the time of its erasure. */
type Erased = TombstoneTerms & { readonly tenant: string, readonly job: string }

/**
 * Repeats the erasures that the topic of keys records: an old file of Redis restores the erased
 * keys, and an empty Redis does not know of the erasures. Queues them too, as copies of their keys
 * may be left. Runs to its end once per run of the server.
 * @throws InfrastructureError when Redis or the topic cannot be read.
 */
export async function reErase (
  deps: ReEraseDeps, run: string, signal: AbortSignal
): Promise<void> {
  const { redis, clock, log, metrics } = deps
  if (await redis.get(ERASED_IN_KEY) === run) return
  let deleted = 0
  for (const { tenant, job, atMs, cache } of await erasedJobs(deps, signal)) {
    signal.throwIfAborted()
    // Marked first: a restore of keys checks the mark after its write.
    if (atMs + ACCEPTED_KEY_MS > clock.now()) {
      await markErased(redis, { tenant, job, atMs })
      await queueErasure(redis, { tenant, job, cache }, atMs)
    }
    deleted += await redis.del(jobKeys(tenant, job).dataKey)
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
    for (const message of messages) {
      const { tenant } = message.headers
      if (message.value !== null || tenant === undefined) continue
      const job = message.key.toString()
      const terms = tombstoneTermsOf(message)
      const earlier = erased.get(job)
      // Repeated tombstones leave out the cache.
      const cache = terms.cache || earlier?.cache === true
      erased.set(job, { tenant, job, atMs: Math.min(terms.atMs, earlier?.atMs ?? Infinity), cache })
    }
  }, { sinceMs, signal })
  return erased.values()
}
