import { LRUCache } from 'lru-cache'
import { randomBytes } from 'node:crypto'
import type { Keys } from '../../schemas/types.ts'
import {
  connectOrganizationKeys, type RootKeySettings,
} from '../accounts/connect-organization-keys.ts'
import {
  OrganizationKeyStore, createPublicOrganizationKeys, OrganizationErasedError,
  type OrganizationKeys,
} from '../accounts/organization-keys.ts'
import { parseTenant } from '../accounts/tenant.ts'
import { requestedAtMs } from './job.ts'
import { jobRedisKeys } from './job-record.ts'
import { createJobStore } from './store.ts'
import type { RootKeyMetrics } from '../runtime/crypto/root-keys.ts'
import { type Binding, SealError, subkey } from '../runtime/crypto/seal.ts'
import type { Connections } from '../runtime/engine/connections.ts'
import type { Bus } from '../runtime/kafka/bus.ts'
import type { Codec } from '../runtime/kafka/registry.ts'
import { FatalError } from '../runtime/platform/errors.ts'
import type { RedisClient } from '../runtime/platform/redis.ts'
import { messageKey, topicName } from '../runtime/platform/topics.ts'

export type JobKeys = {
  /**
   * The key; undefined for a job that was refused, never accepted, or erased, and for a closed one
   * unless `findClosed` is given.
   * @throws JobKeyLostError when the job runs and neither Redis nor the topic has its key.
   * @throws SealError when the stored key cannot be opened and the topic has no intact one.
   * @throws FatalError when the key that it is wrapped by is missing.
   */
  readonly get: (tenant: string, job: string) => Promise<Buffer | undefined>
}

/**
 * What the organization key of each class opens of a job: its data key, and the key of its header,
 * which is derived from the data key. Both are stored together, and so erased together.
 */
export type JobKeyPart = 'results' | 'webhooks'

export type JobKeysOptions = {
  readonly redis: RedisClient
  /** Shared with other `JobKeys` of the process; its own by default. */
  readonly cache?: KeyCache
  /** Which key to open, by the organization key of that class. */
  readonly part: JobKeyPart
  readonly keys: OrganizationKeys
  /** True for an accepted job that is not closed. */
  readonly isRunning?: (tenant: string, job: string) => Promise<boolean>
  /** The wrapped key in the topic `job.keys`. */
  readonly restore?: (tenant: string, job: string) => Promise<Buffer | undefined>
  /** The wrapped key of a closed job whose record in Redis has expired. */
  readonly findClosed?: (tenant: string, job: string) => Promise<Buffer | undefined>
}

/** A running job whose data key neither Redis nor the topic `job.keys` has. */
export class JobKeyLostError extends Error {
  override readonly name = 'JobKeyLostError'
}

/** How long Redis keeps a restored key, whose job may have ended; a read restores it again. */
const RESTORED_KEY_MS = 3_600_000
/**
 * Lifetime of the key of an accepted job: a day longer than its results. Redis drops it earlier.
 */
export const ACCEPTED_KEY_MS = 91 * 86_400_000
/** How long a process caches a data key, so how long it can use an erased one. */
export const KEY_CACHE_MS = 5_000

/** The data keys of jobs, or the keys of their headers, opened by keys of organizations. */
export function createJobKeys (options: JobKeysOptions): JobKeys {
  const { redis, part, keys, cache = createKeyCache() } = options
  const restoreKey = createRestoreKey(options)
  const isErased = async (tenant: string, job: string) =>
    await redis.exists(jobRedisKeys(tenant, job).erased) === 1
  const findClosedKey = async (tenant: string, job: string): Promise<Buffer | undefined> => {
    const { findClosed } = options
    if (findClosed === undefined || isExpired(job) || await isErased(tenant, job)) return undefined
    const wrapped = await findClosed(tenant, job)
    // The job may have been erased during the search.
    return await isErased(tenant, job) ? undefined : wrapped
  }
  const findElsewhere = async (tenant: string, job: string) =>
    await findClosedKey(tenant, job) ?? await restoreKey(tenant, job)
  /** Falls back to the topic if the bytes in Redis are damaged. */
  const unwrap = async (tenant: string, job: string, wrapped: Buffer): Promise<Buffer> => {
    try {
      return await openJobKey(keys, part, { tenant, job, wrapped })
    } catch (error) {
      const mayBeDamaged = error instanceof SealError || error instanceof FatalError
      if (!mayBeDamaged || options.restore === undefined) throw error
      const intact = await findElsewhere(tenant, job)
      if (intact === undefined) throw error
      return await openJobKey(keys, part, { tenant, job, wrapped: intact })
    }
  }
  return {
    get: async (tenant, job) => {
      const name = dataKeyName(tenant, job)
      const cached = cache.get(`${part}:${name}`)
      if (cached !== undefined) return cached
      const wrapped = await redis.getBuffer(name) ?? await findElsewhere(tenant, job)
      if (wrapped === undefined) return undefined
      const key = await unwrap(tenant, job, wrapped).catch((error: unknown): undefined => {
        if (!(error instanceof OrganizationErasedError)) throw error
      })
      if (key !== undefined) cache.set(`${part}:${name}`, key)
      return key
    },
  }
}

/** Enforces the lifetime of a key even if somebody restores a copy of it. */
const isExpired = (job: string) => requestedAtMs(job) + ACCEPTED_KEY_MS <= Date.now()

/** Restores the wrapped key of a running job to Redis; undefined if the job does not run. */
function createRestoreKey (options: JobKeysOptions) {
  const restoring = new Map<string, Promise<Buffer | undefined>>()
  const restore = async (tenant: string, job: string): Promise<Buffer | undefined> => {
    if (await options.isRunning?.(tenant, job) !== true) return undefined
    const wrapped = await options.restore?.(tenant, job)
    if (wrapped === undefined) {
      throw new JobKeyLostError(
        `the data key of the running job ${job} is missing in Redis and in the topic job.keys`)
    }
    await options.redis.set(dataKeyName(tenant, job), wrapped, 'PX', RESTORED_KEY_MS)
    // The job may have ended and been erased during the search.
    if (await options.redis.exists(jobRedisKeys(tenant, job).erased) === 0) return wrapped
    await options.redis.del(dataKeyName(tenant, job))
    return undefined
  }
  /** All messages of a job miss its key at the same time, so they share one search. */
  return (tenant: string, job: string): Promise<Buffer | undefined> => {
    const name = dataKeyName(tenant, job)
    const pending = restoring.get(name) ??
      restore(tenant, job).finally(() => restoring.delete(name))
    restoring.set(name, pending)
    return pending
  }
}

/**
 * Finds the wrapped key of a job in the topic `job.keys`: it is sent there before the first chunk
 * of the job, and kept longer than its results.
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

const dataKeyName = (tenant: string, job: string) => jobRedisKeys(tenant, job).dataKey

/** Data keys of new jobs. */
export type NewJobKeys = {
  /** Creates a data key, which `claim` stores wrapped. */
  readonly create: (tenant: string, job: string) => Promise<NewJobKey>
}

export type NewJobKey = { readonly key: Buffer, readonly wrapped: Buffer }

/** Wraps the part of each class. */
export type WrapJobKeys =
  Readonly<Record<JobKeyPart, Pick<OrganizationKeys, 'wrap' | 'whenShipped'>>>

/** Creates data keys; `cache` keeps them for those who seal the rows of the job. */
export function createNewJobKeys (wrap: WrapJobKeys, cache: KeyCache): NewJobKeys {
  return {
    create: async (tenant, job) => {
      const made = await newJobKey(wrap, tenant, job)
      cache.set(`results:${dataKeyName(tenant, job)}`, made.key)
      return made
    },
  }
}

/** Creates a data key for a job and wraps both parts of it. */
async function newJobKey (
  wrap: WrapJobKeys, tenant: string, job: string
): Promise<NewJobKey> {
  const key = randomBytes(32)
  const { orgId } = parseTenant(tenant)
  await Promise.all(JOB_KEY_PARTS.map(part => wrap[part].whenShipped(orgId)))
  const [results, webhooks] = await Promise.all([
    wrap.results.wrap(orgId, key, jobKeyBinding('results', tenant, job)),
    wrap.webhooks.wrap(orgId, deriveHeaderKey(key), jobKeyBinding('webhooks', tenant, job)),
  ])
  return { key, wrapped: joinJobKey({ results, webhooks }) }
}

const JOB_KEY_PARTS: readonly JobKeyPart[] = ['results', 'webhooks']

/** Binds a wrapped part to its job. */
export function jobKeyBinding (part: JobKeyPart, tenant: string, job: string): Binding {
  return [part === 'results' ? 'data-key' : 'header-key', tenant, job]
}

/**
 * Opens one part of a stored data key.
 * @throws SealError for bytes that are not the parts of a data key, or another job's.
 */
export async function openJobKey (
  keys: Pick<OrganizationKeys, 'unwrap'>, part: JobKeyPart,
  { tenant, job, wrapped }: {
    readonly tenant: string, readonly job: string, readonly wrapped: Buffer,
  }
): Promise<Buffer> {
  return await keys.unwrap(
    parseTenant(tenant).orgId, splitJobKey(wrapped)[part], jobKeyBinding(part, tenant, job))
}

/** What precedes the first part as stored: its length. */
export const JOB_KEY_HEAD_BYTES = 2

/** Both parts as stored: the length of the first in 2 bytes, then one after the other. */
export function joinJobKey (
  { results, webhooks }: Readonly<Record<JobKeyPart, Buffer>>
): Buffer {
  const length = Buffer.alloc(JOB_KEY_HEAD_BYTES)
  length.writeUInt16BE(results.length)
  return Buffer.concat([length, results, webhooks])
}

/** @throws SealError for bytes that are not the parts of a data key. */
export function splitJobKey (wrapped: Buffer): Readonly<Record<JobKeyPart, Buffer>> {
  const end = wrapped.length < JOB_KEY_HEAD_BYTES
    ? Infinity
    : JOB_KEY_HEAD_BYTES + wrapped.readUInt16BE(0)
  if (wrapped.length <= end) throw new SealError(`not a wrapped data key: ${wrapped.length} bytes`)
  return { results: wrapped.subarray(JOB_KEY_HEAD_BYTES, end), webhooks: wrapped.subarray(end) }
}

/** The key of the header of a job, from its data key. */
export const deriveHeaderKey = (dataKey: Buffer): Buffer => subkey(dataKey, 'header')

/** Unwrapped keys in memory, by their part and their name in Redis. */
type KeyCache = LRUCache<string, Buffer>

/** An empty cache; keys leave it, and the memory, `ttl` ms after they were read or created. */
function createKeyCache (ttl: number = KEY_CACHE_MS): KeyCache {
  return new LRUCache({ max: 5_000, ttl, ttlAutopurge: true })
}

export type KeyConnections = Pick<Connections, 'bus' | 'codec' | 'state'> &
  { readonly metrics?: RootKeyMetrics }
type FindClosed = NonNullable<JobKeysOptions['findClosed']>

const caches = new WeakMap<KeyConnections['state'], KeyCache>()

/** The services of one process share a connection, and so the keys that they read over it. */
export function sharedKeyCache (state: KeyConnections['state']): KeyCache {
  const cache = caches.get(state) ?? createKeyCache()
  caches.set(state, cache)
  return cache
}

/**
 * The keys of jobs, from the connections of a service and the root keys of its configuration.
 * Restores the missing key of a running job from the topic `job.keys`. Finds keys of closed jobs by
 * `findClosed`, if it is given.
 */
export function connectJobKeys<P extends JobKeyPart> (
  connected: KeyConnections, config: RootKeySettings<P>,
  { part, findClosed }: { readonly part: P, readonly findClosed?: FindClosed | undefined }
): JobKeys {
  const { bus, codec, state } = connected
  const store = createJobStore(state)
  const isRunning = async (tenant: string, job: string): Promise<boolean> => {
    const outcome = await store.outcome(tenant, job)
    return outcome.kind === 'accepted' && !outcome.job.closed
  }
  return createJobKeys({
    redis: state,
    part,
    keys: connectOrganizationKeys(part, config, connected),
    cache: sharedKeyCache(state),
    isRunning,
    restore: keysInTopic({ bus, codec }),
    ...findClosed !== undefined && { findClosed },
  })
}

/**
 * The keys of jobs that a service without root keys creates: it wraps them with public keys, keeps
 * them for `ttlMs` to seal rows, and cannot open any.
 */
export function connectSealingKeys (
  state: KeyConnections['state'], ttlMs: number
): JobKeys & NewJobKeys {
  const cache = createKeyCache(ttlMs)
  const store = new OrganizationKeyStore(state)
  const openKeys = (part: JobKeyPart) => createPublicOrganizationKeys({ store, class: part })
  const wrap = { results: openKeys('results'), webhooks: openKeys('webhooks') }
  return {
    ...createNewJobKeys(wrap, cache),
    get: async (tenant, job) => cache.get(`results:${dataKeyName(tenant, job)}`),
  }
}
