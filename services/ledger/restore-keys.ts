import type { Redis } from 'ioredis'
import type { Keys } from '../../schemas/types.ts'
import { ACCEPTED_KEY_MS } from '../jobs/job-keys.ts'
import { jobKeys } from '../jobs/redis-keys.ts'
import type { Clock } from '../platform/clock.ts'
import type { TopicReader } from '../kafka/topic-reader.ts'
import type { Metrics } from '../platform/metrics.ts'
import type { Codec } from '../kafka/registry.ts'
import { topicName } from '../platform/topics.ts'
import { reErase, type ReEraseDeps } from './re-erase.ts'

export type RestoreKeysDeps = {
  readonly redis: Pick<Redis, 'set' | 'pexpire' | 'exists' | 'del'>
  readonly reader: TopicReader
  readonly codec: Pick<Codec, 'decode'>
  readonly clock: Clock
  readonly metrics: Pick<Metrics, 'count'>
}

export type RepairKeysDeps = RestoreKeysDeps & ReEraseDeps

/** Keys of jobs to repair; `run` is undefined if no wallet is locked. */
export type Loss = {
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
  let restored = 0
  for (const [job, { tenant, atMs }] of missing) {
    const wrapped = erasedJobs.has(job) ? undefined : newest.get(job)
    const leftMs = atMs + ACCEPTED_KEY_MS - clock.now()
    if (wrapped === undefined || leftMs <= 0) continue
    const { dataKey, erased } = jobKeys(tenant, job)
    await redis.set(dataKey, wrapped, 'PX', leftMs, 'NX')
    // An old file may have it with the short expiry from before the job was accepted.
    await redis.pexpire(dataKey, leftMs, 'GT')
    // An erasure during the read marks the job before it deletes the key.
    if (await redis.exists(erased) === 1) await redis.del(dataKey)
    else restored += 1
  }
  metrics.count('recovery_actions_total', { kind: 'key' }, restored)
}
