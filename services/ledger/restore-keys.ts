import type { Redis } from 'ioredis'
import type { Keys } from '../../schemas/types.ts'
import { ACCEPTED_KEY_MS } from '../jobs/job-keys.ts'
import { jobKeys } from '../jobs/redis-keys.ts'
import type { Clock } from '../lib/clock.ts'
import type { TopicReader } from '../lib/kafka/topic-reader.ts'
import type { Metrics } from '../lib/metrics.ts'
import type { Codec } from '../lib/registry.ts'
import { topicName } from '../lib/topics.ts'

export type RestoreKeysParts = {
  readonly redis: Pick<Redis, 'set' | 'pexpire'>
  readonly reader: TopicReader
  readonly codec: Pick<Codec, 'decode'>
  readonly clock: Clock
  readonly metrics: Pick<Metrics, 'count'>
}

/** An accepted job whose data key Redis may lack, and when it reserved. */
export type Lacking = { readonly tenant: string, readonly atMs: number }

/**
 * Puts the wrapped data keys of jobs back, by which their results can be read, as the topic has
 * them: a job whose key was erased there stays erased, and a key that Redis has stays as it is, for
 * as long as that of any accepted job.
 */
export async function restoreKeys (
  { redis, reader, codec, clock, metrics }: RestoreKeysParts,
  lacking: ReadonlyMap<string, Lacking>, signal: AbortSignal
): Promise<void> {
  if (lacking.size === 0) return
  const newest = new Map<string, Buffer | undefined>()
  await reader.read(topicName('job.keys'), async messages => {
    for (const { key, value } of messages) {
      const job = key.toString()
      if (!lacking.has(job)) continue
      const found = value === null ? undefined : await codec.decode('job.keys', value) as Keys
      const isOwn = found?.tenant === lacking.get(job)?.tenant
      newest.set(job, isOwn ? found?.wrapped : undefined)
    }
  }, { signal })
  let restored = 0
  for (const [job, { tenant, atMs }] of lacking) {
    const wrapped = newest.get(job)
    const leftMs = atMs + ACCEPTED_KEY_MS - clock.now()
    if (wrapped === undefined || leftMs <= 0) continue
    const { dataKey } = jobKeys(tenant, job)
    await redis.set(dataKey, wrapped, 'PX', leftMs, 'NX')
    // An old file has it as it was before the job was accepted, for an hour.
    await redis.pexpire(dataKey, leftMs, 'GT')
    restored += 1
  }
  metrics.count('recovered_total', { what: 'key' }, restored)
}
