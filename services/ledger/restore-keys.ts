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

/** Keys of jobs after a loss: `run` is that of the server, if it has tenants that wait. */
export type Loss = {
  readonly run: string | undefined
  readonly lacking: ReadonlyMap<string, Lacking>
}

/** An accepted job whose data key Redis may lack, and when it reserved. */
export type Lacking = { readonly tenant: string, readonly atMs: number }

/**
 * Brings the data keys of jobs to what the topic says of them. Those that were erased go first: an
 * old file has them again, and whoever comes to ask must not find them.
 * @throws InfrastructureError when Redis or the topic cannot be read.
 */
export async function repairKeys (
  deps: RepairKeysDeps, { run, lacking }: Loss, signal: AbortSignal
): Promise<void> {
  if (run !== undefined) await reErase(deps, run, signal)
  await restoreKeys(deps, lacking, signal)
}

/**
 * Puts the wrapped data keys of jobs back, by which their results can be read, as the topic has
 * them: a job whose key was erased there stays erased, and a key that Redis has stays as it is, for
 * as long as that of any accepted job.
 */
export async function restoreKeys (
  { redis, reader, codec, clock, metrics }: RestoreKeysDeps,
  lacking: ReadonlyMap<string, Lacking>, signal: AbortSignal
): Promise<void> {
  if (lacking.size === 0) return
  let sinceMs = Infinity
  for (const { atMs } of lacking.values()) sinceMs = Math.min(sinceMs, atMs)
  const newest = new Map<string, Buffer>()
  // Nobody puts an erased key back: one that comes behind its erasure is an old message again.
  const erasedJobs = new Set<string>()
  await reader.read(topicName('job.keys'), async messages => {
    for (const { key, value } of messages) {
      const job = key.toString()
      if (!lacking.has(job)) continue
      if (value === null) {
        erasedJobs.add(job)
        continue
      }
      const { tenant, wrapped } = await codec.decode('job.keys', value) as Keys
      if (tenant === lacking.get(job)?.tenant) newest.set(job, wrapped)
    }
  }, { sinceMs, signal })
  let restored = 0
  for (const [job, { tenant, atMs }] of lacking) {
    const wrapped = erasedJobs.has(job) ? undefined : newest.get(job)
    const leftMs = atMs + ACCEPTED_KEY_MS - clock.now()
    if (wrapped === undefined || leftMs <= 0) continue
    const { dataKey, erased } = jobKeys(tenant, job)
    await redis.set(dataKey, wrapped, 'PX', leftMs, 'NX')
    // An old file has it as it was before the job was accepted, for an hour.
    await redis.pexpire(dataKey, leftMs, 'GT')
    // Whoever erases a job while the topic is read marks it before the key is deleted.
    if (await redis.exists(erased) === 1) await redis.del(dataKey)
    else restored += 1
  }
  metrics.count('recovery_actions_total', { kind: 'key' }, restored)
}
