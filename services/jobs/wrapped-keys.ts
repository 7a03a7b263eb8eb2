import type { Keys } from '../../schemas/types.ts'
import type { Producer, RawMessage } from '../runtime/kafka/bus.ts'
import { partsOf } from '../accounts/tenant.ts'
import type { Wrapped, WrappedPiece } from '../accounts/records.ts'
import { SealError } from '../runtime/crypto/seal.ts'
import type { Codec } from '../runtime/kafka/registry.ts'
import { mastersOf } from '../runtime/platform/cells.ts'
import { createCompareAndSet, type RedisClient } from '../runtime/platform/redis.ts'
import { messageKey, topicName } from '../runtime/platform/topics.ts'
import { jobKeyBinding, type JobKeyPart, joinJobKey, splitJobKey } from './job-keys.ts'
import { jobKeys } from './redis-keys.ts'

/**
 * Passes the messages of a topic, all or those since a time, to `onMessages`, in order for each
 * partition.
 */
export type ReadTopic = (
  topic: string, onMessages: (messages: readonly RawMessage[]) => Promise<void> | void,
  limits?: { readonly sinceMs?: number | undefined },
) => Promise<unknown>

type TopicDeps = {
  readonly redis: RedisClient
  readonly codec: Pick<Codec, 'decode' | 'encode'>
  readonly producer: Pick<Producer, 'send'>
  readonly read: ReadTopic
}

/** A stored data key for a rotation: both parts, replaced together; damaged bytes as one. */
export function wrappedJobKey (
  { tenant, job, wrapped }: Pick<Keys, 'tenant' | 'job' | 'wrapped'>,
  replace: (fresh: Buffer) => Promise<boolean>
): Wrapped {
  const { orgId } = partsOf(tenant)
  const pieceOf = (part: JobKeyPart, bytes: Buffer): WrappedPiece =>
    ({ class: part, bytes, binding: jobKeyBinding(part, tenant, job) })
  try {
    const { results, webhooks } = splitJobKey(wrapped)
    return {
      orgId,
      pieces: [pieceOf('results', results), pieceOf('webhooks', webhooks)],
      replace: ([first, second = Buffer.alloc(0)]) =>
        replace(joinJobKey({ results: first, webhooks: second })),
    }
  } catch (error) {
    if (!(error instanceof SealError)) throw error
    return { orgId, pieces: [pieceOf('results', wrapped)], replace: async () => false }
  }
}

const KEYS_PER_SCAN = 1_000
const KEY_PATTERN = /^dek:\{(.+)\}(\.[^:]+):(job_.+)$/

/** The wrapped data keys of all jobs in Redis. */
export async function * wrappedInRedis (redis: RedisClient): AsyncIterable<Wrapped> {
  const compareAndSet = createCompareAndSet(redis)
  for (const master of await mastersOf(redis)) {
    const scanned: AsyncIterable<readonly string[]> =
      master.scanStream({ match: 'dek:*', count: KEYS_PER_SCAN })
    for await (const keys of scanned) {
      const values = await Promise.all(keys.map(key => redis.getBuffer(key)))
      for (const [index, key] of keys.entries()) {
        const bytes = values[index]
        const [, orgId = '', mode = '', job = ''] = KEY_PATTERN.exec(key) ?? []
        if (bytes === null || bytes === undefined || job === '') continue
        const replace = (fresh: Buffer) => compareAndSet(key, bytes, fresh)
        yield wrappedJobKey({ tenant: `${orgId}${mode}`, job, wrapped: bytes }, replace)
      }
    }
  }
}

/**
 * The wrapped data keys of all jobs in the topic `job.keys`, the newest of each job. `replace`
 * writes a new one, followed by a tombstone if the job was erased meanwhile.
 */
export async function * wrappedInTopic (deps: TopicDeps): AsyncIterable<Wrapped> {
  const topic = topicName('job.keys')
  const newest = new Map<string, Buffer>()
  const erased = new Set<string>()
  await deps.read(topic, messages => {
    for (const { key, value } of messages) {
      if (value === null) erased.add(String(key))
      else newest.set(String(key), value)
    }
  })
  for (const key of erased) newest.delete(key)
  for (const value of newest.values()) {
    const { tenant, job, wrapped } = await deps.codec.decode('job.keys', value) as Keys
    const replace = (fresh: Buffer) => putInTopic(deps, { tenant, job, wrapped: fresh })
    yield wrappedJobKey({ tenant, job, wrapped }, replace)
  }
}

async function putInTopic ({ redis, codec, producer }: TopicDeps, value: Keys): Promise<boolean> {
  const { tenant, job } = value
  await producer.send([{
    topic: topicName('job.keys'),
    key: messageKey('job.keys', value),
    value: await codec.encode('job.keys-value', value),
    headers: { tenant, job },
  }])
  // An eraser sets the mark before its tombstone, so a tombstone follows in either order.
  if (await redis.exists(jobKeys(tenant, job).erased) === 0) return true
  await producer.send([tombstoneOf(tenant, job)])
  return false
}

/** What a tombstone says of its erasure: the time, and whether cached records go too. */
export type TombstoneTerms = { readonly atMs: number, readonly cache: boolean }

/** The tombstone that removes the key of a job from the topic `job.keys`. */
export function tombstoneOf (tenant: string, job: string, terms?: TombstoneTerms) {
  const key = messageKey('job.keys', { job })
  const headers = {
    tenant,
    job,
    ...terms && { erased_at: String(terms.atMs), erase_cache: terms.cache ? '1' : '0' },
  }
  return { topic: topicName('job.keys'), key, value: null, headers }
}

/** The terms of a tombstone; those of older releases have only the time of the brokers. */
export function tombstoneTermsOf (
  { headers, timestampMs }: Pick<RawMessage, 'headers' | 'timestampMs'>
): TombstoneTerms {
  const { erased_at: at, erase_cache: cache } = headers
  return { atMs: at === undefined ? timestampMs : Number(at), cache: cache === '1' }
}
