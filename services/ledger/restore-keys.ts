import type { Redis } from 'ioredis'
import type { Keys } from '../../schemas/types.ts'
import { ACCEPTED_KEY_MS } from '../jobs/job-keys.ts'
import { markErased, queueErasure } from '../jobs/erasures.ts'
import { ERASED_IN, ERASED_UNTIL, ERASURES_KEYS, jobRedisKeys } from '../jobs/job-record.ts'
import { type TombstoneTerms, parseTombstoneTerms } from '../jobs/wrapped-keys.ts'
import type { Codec } from '../runtime/kafka/registry.ts'
import type { TopicReader } from '../runtime/kafka/topic-reader.ts'
import { splitBatches } from '../runtime/platform/batch-writes.ts'
import type { Clock } from '../runtime/platform/retry.ts'
import type { Log } from '../runtime/platform/log.ts'
import type { Metrics } from '../runtime/platform/metrics.ts'
import type { RedisClient, RedisServer } from '../runtime/platform/redis.ts'
import { isInfrastructure } from '../runtime/platform/errors.ts'
import { topicName } from '../runtime/platform/topics.ts'

type RestoreKeysDeps = {
  readonly redis: Pick<Redis, 'set' | 'pexpire' | 'exists' | 'del'>
  readonly reader: TopicReader
  readonly codec: Codec
  readonly clock: Clock
  readonly metrics: Pick<Metrics, 'count'>
}

export type RepairKeysDeps = RestoreKeysDeps & ReEraseDeps

/** An accepted job whose data key Redis may lack, and the time of its reservation. */
type MissingKey = { readonly tenant: string, readonly atMs: number }

/**
 * Restores the data keys of jobs from their topic. Erases erased jobs first, so that no process
 * reads keys that an old file of Redis has restored.
 * @throws InfrastructureError when Redis or the topic cannot be read.
 */
export async function repairKeys (
  deps: RepairKeysDeps, missing: ReadonlyMap<string, MissingKey>, signal: AbortSignal
): Promise<void> {
  await reErase(deps, signal)
  await restoreKeys(deps, missing, signal)
}

/**
 * Restores the wrapped data keys that open the results of jobs, for as long as the key of any
 * accepted job is kept. A job that was erased in the topic stays erased, and an existing key stays
 * as it is.
 */
async function restoreKeys (
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
  const restorable = [...missing].flatMap(([job, key]) => {
    const wrapped = erasedJobs.has(job) ? undefined : newest.get(job)
    return wrapped === undefined ? [] : [{ job, wrapped, ...key }]
  })
  let restored = 0
  for (const batch of splitBatches(restorable, KEYS_PER_BATCH)) {
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
  const { dataKey, erased } = jobRedisKeys(tenant, job)
  await redis.set(dataKey, wrapped, 'PX', leftMs, 'NX')
  // An old file may have the key with the short expiry from before the job was accepted.
  await redis.pexpire(dataKey, leftMs, 'GT')
  // An erasure during the read marks the job before it deletes the key.
  if (await redis.exists(erased) === 0) return true
  await redis.del(dataKey)
  return false
}

type ReEraseDeps = {
  readonly redis: RedisClient
  /** The servers that respond. */
  readonly servers: () => Promise<readonly RedisServer[]>
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
 * may be left. Runs to its end once per run of each server.
 * @throws InfrastructureError when Redis or the topic cannot be read.
 */
async function reErase (deps: ReEraseDeps, signal: AbortSignal): Promise<void> {
  const { redis, servers, clock, log, metrics } = deps
  const reached = await servers()
  const completed = await Promise.all(reached.map(server => isCompleted(redis, server)))
  const lost = reached.filter((_, index) => completed[index] === false)
  if (lost.length === 0) return
  const isLost = (key: string) => lost.some(({ has }) => has(key))
  const isQueueLost = Object.values(ERASURES_KEYS).some(isLost)
  let deleted = 0
  for (const erased of await erasedJobs(deps, lost, signal)) {
    signal.throwIfAborted()
    const { tenant, job, atMs } = erased
    const { dataKey } = jobRedisKeys(tenant, job)
    const hasLostKey = isLost(dataKey)
    if (!hasLostKey && !isQueueLost) continue
    if (atMs + ACCEPTED_KEY_MS > clock.now()) {
      // Marked first: a restore of keys checks the mark after its write.
      if (hasLostKey) await markErased(redis, erased)
      await queueErasure(redis, erased, atMs)
    }
    if (hasLostKey) deleted += await redis.del(dataKey)
  }
  for (const { run, keyOf } of lost) await redis.set(keyOf(ERASED_IN), run)
  await recordErased(deps)
  if (deleted === 0) return
  metrics.count('recovery_actions_total', { kind: 'erasure' }, deleted)
  log.warn({ jobs: deleted }, 'data keys of erased jobs re-erased after a restore of Redis')
}

/**
 * Whether the erased jobs were re-erased in this run of a server. Undefined for a server of a
 * cluster that cannot execute commands now.
 */
async function isCompleted (
  redis: RedisClient, { address, run, keyOf }: RedisServer
): Promise<boolean | undefined> {
  try {
    return await redis.get(keyOf(ERASED_IN)) === run
  } catch (error) {
    if (address === '' || !isInfrastructure(error)) throw error
    return undefined
  }
}

/**
 * Records that the servers in whose run `reErase` was completed have all erasures up to now, which
 * shortens the next one. Called periodically by the leader.
 */
export async function recordErased ({ redis, servers, clock }: ReEraseDeps): Promise<void> {
  for (const server of await servers()) {
    if (await isCompleted(redis, server) !== true) continue
    await redis.set(server.keyOf(ERASED_UNTIL), String(clock.now()))
  }
}

/** The jobs whose key was erased in the topic since these servers last had all erasures. */
async function erasedJobs (
  { redis, reader }: ReEraseDeps, lost: readonly RedisServer[], signal: AbortSignal
): Promise<Iterable<Erased>> {
  const erased = new Map<string, Erased>()
  const untilMs = await Promise.all(lost.map(({ keyOf }) => redis.get(keyOf(ERASED_UNTIL))))
  const sinceMs = untilMs.includes(null) ? undefined : Math.min(...untilMs.map(Number))
  await reader.read(topicName('job.keys'), messages => {
    for (const message of messages) {
      const { tenant } = message.headers
      if (message.value !== null || tenant === undefined) continue
      const job = message.key.toString()
      const terms = parseTombstoneTerms(message)
      const earlier = erased.get(job)
      // Repeated tombstones leave out the cache.
      const cache = terms.cache || earlier?.cache === true
      erased.set(job, { tenant, job, atMs: Math.min(terms.atMs, earlier?.atMs ?? Infinity), cache })
    }
  }, { sinceMs, signal })
  return erased.values()
}
