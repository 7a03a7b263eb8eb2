import type { Redis } from 'ioredis'
import { randomBytes } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { Keys } from '../../schemas/types.ts'
import type { Bus } from '../kafka/bus.ts'
import { FatalError } from '../platform/errors.ts'
import type { KeyRing } from '../crypto/key-ring.ts'
import type { Codec } from '../kafka/registry.ts'
import { SealError } from '../crypto/seal.ts'
import { messageKey, topicName } from '../platform/topics.ts'
import { requestedAtMs } from './job.ts'
import { jobKeys } from './redis-keys.ts'

export type JobKeys = {
  /** Makes the data key of a new job and stores it wrapped, for an hour; `accept` prolongs that. */
  readonly create: (tenant: string, job: string) =>
  Promise<{ readonly key: Buffer, readonly wrapped: Buffer }>
  /**
   * The data key; undefined for a job that was refused, never accepted, or erased, and for a closed
   * one unless `findClosed` is given.
   * @throws JobKeyLostError when the job runs and its key is nowhere.
   * @throws SealError when what is stored cannot be opened and the topic has nothing better.
   * @throws FatalError when the ring lacks the key it is wrapped by.
   */
  readonly get: (tenant: string, job: string) => Promise<Buffer | undefined>
}

export type JobKeysOptions = {
  readonly redis: Redis
  readonly ring: Pick<KeyRing, 'wrap' | 'unwrap'>
  /** True for an accepted job that is not closed. */
  readonly isRunning?: (tenant: string, job: string) => Promise<boolean>
  /** The wrapped key as the topic `job.keys` has it. */
  readonly restore?: (tenant: string, job: string) => Promise<Buffer | undefined>
  /** The wrapped key of a job that was closed so long ago that Redis has forgotten it. */
  readonly findClosed?: (tenant: string, job: string) => Promise<Buffer | undefined>
}

/** A running job whose data key neither Redis nor the topic `job.keys` has. */
export class JobKeyLostError extends Error {
  override readonly name = 'JobKeyLostError'
}

/**
 * How long Redis keeps a wrapped key of which it is not known that its job is accepted, or still
 * runs; of one that does it is restored as often as it is asked for.
 */
const UNCERTAIN_MS = 3_600_000
/** Kept a day longer than the results it opens, though by Redis no longer than its job runs. */
export const ACCEPTED_KEY_MS = 91 * 86_400_000
/** An erased key is out of every process after at most this long. */
export const REMEMBERED_MS = 5_000

/**
 * The data keys of jobs: one of 32 random bytes each, wrapped by the ring wherever it is stored.
 */
export function createJobKeys (options: JobKeysOptions): JobKeys {
  const { redis, ring } = options
  const unwrapped = new LRUCache<string, Buffer>({ max: 5_000, ttl: REMEMBERED_MS })
  const remember = (name: string, key: Buffer) => {
    // Keys that are too old to be used are not to stay in memory either.
    unwrapped.purgeStale()
    unwrapped.set(name, key)
  }
  const restored = createRestored(options)
  const isErased = async (tenant: string, job: string) =>
    await redis.exists(jobKeys(tenant, job).erased) === 1
  const closed = async (tenant: string, job: string): Promise<Buffer | undefined> => {
    const { findClosed } = options
    if (findClosed === undefined || isOutdated(job) || await isErased(tenant, job)) return undefined
    const wrapped = await findClosed(tenant, job)
    // The search takes a while: a job that was erased meanwhile stays erased.
    return await isErased(tenant, job) ? undefined : wrapped
  }
  const elsewhere = async (tenant: string, job: string) =>
    await closed(tenant, job) ?? await restored(tenant, job)
  /** Redis may hold broken bytes where the topic has whole ones. */
  const unwrap = async (tenant: string, job: string, wrapped: Buffer): Promise<Buffer> => {
    const aad = dataKeyAad(tenant, job)
    try {
      return ring.unwrap(wrapped, aad)
    } catch (error) {
      const mayBeBroken = error instanceof SealError || error instanceof FatalError
      if (!mayBeBroken || options.restore === undefined) throw error
      const whole = await elsewhere(tenant, job)
      if (whole === undefined) throw error
      return ring.unwrap(whole, aad)
    }
  }
  return {
    create: async (tenant, job) => {
      const key = randomBytes(32)
      const wrapped = ring.wrap(key, dataKeyAad(tenant, job))
      await redis.set(nameOf(tenant, job), wrapped, 'PX', UNCERTAIN_MS)
      remember(nameOf(tenant, job), key)
      return { key, wrapped }
    },
    get: async (tenant, job) => {
      const name = nameOf(tenant, job)
      const known = unwrapped.get(name)
      if (known !== undefined) return known
      const wrapped = await redis.getBuffer(name) ?? await elsewhere(tenant, job)
      if (wrapped === undefined) return undefined
      const key = await unwrap(tenant, job, wrapped)
      remember(name, key)
      return key
    },
  }
}

/** Whoever has kept a copy of a wrapped key cannot make it last for longer. */
const isOutdated = (job: string) => requestedAtMs(job) + ACCEPTED_KEY_MS <= Date.now()

/** Puts the wrapped key of a running job back to Redis; undefined when the job does not run. */
function createRestored (options: JobKeysOptions) {
  const restoring = new Map<string, Promise<Buffer | undefined>>()
  const restored = async (tenant: string, job: string): Promise<Buffer | undefined> => {
    if (await options.isRunning?.(tenant, job) !== true) return undefined
    const wrapped = await options.restore?.(tenant, job)
    if (wrapped === undefined) {
      throw new JobKeyLostError(`the data key of the running job ${job} is gone`)
    }
    await options.redis.set(nameOf(tenant, job), wrapped, 'PX', UNCERTAIN_MS)
    // The search takes a while: a job that ended and was erased meanwhile stays erased.
    if (await options.redis.exists(jobKeys(tenant, job).erased) === 0) return wrapped
    await options.redis.del(nameOf(tenant, job))
    return undefined
  }
  /** All messages of a job miss its key at the same time. */
  return (tenant: string, job: string): Promise<Buffer | undefined> => {
    const name = nameOf(tenant, job)
    const under = restoring.get(name) ??
      restored(tenant, job).finally(() => restoring.delete(name))
    restoring.set(name, under)
    return under
  }
}

/**
 * Finds the wrapped key of a job in the topic `job.keys`, which has had it since before the job's
 * first chunk and keeps it as long as Redis should.
 */
export function keysInTopic (
  { bus, codec }: { readonly bus: Pick<Bus, 'lastValue'>, readonly codec: Pick<Codec, 'decode'> }
): NonNullable<JobKeysOptions['restore']> {
  return async (tenant, job) => {
    const bytes = await bus.lastValue(topicName('job.keys'), messageKey('job.keys', { job }))
    if (bytes === undefined) return undefined
    const value = await codec.decode('job.keys', bytes) as Keys
    return value.tenant === tenant ? value.wrapped : undefined
  }
}

/** A wrapped key opens only as the key of its own job. */
export const dataKeyAad = (tenant: string, job: string) => ['data-key', tenant, job] as const

const nameOf = (tenant: string, job: string) => jobKeys(tenant, job).dataKey
