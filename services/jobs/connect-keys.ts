import {
  connectOrganizationKeys, type RootKeySettings,
} from '../accounts/connect-organization-keys.ts'
import {
  createPublicOrganizationKeys, createOrganizationKeyStore,
} from '../accounts/organization-keys.ts'
import {
  createdJobKeys, createJobKeys, createKeyCache, createNewJobKeys, keysInTopic, type JobKeys,
  type JobKeysOptions, type KeyCache, type JobKeyPart, type NewJobKeys,
} from './job-keys.ts'
import { createJobStore } from './store.ts'
import { createMessageCodec } from './message-codec.ts'
import type { Connections } from '../runtime/engine/connections.ts'
import type { MessageCodec } from '../runtime/engine/stage.ts'
import { createJobKeyCopy } from './job-key-copy.ts'
import type { RootKeyMetrics } from '../runtime/crypto/root-keys/root-key.ts'

type Connected = Pick<Connections, 'bus' | 'codec' | 'state'> &
  { readonly metrics?: RootKeyMetrics }
type FindClosed = NonNullable<JobKeysOptions['findClosed']>

/**
 * Finds the wrapped data keys of closed jobs in ClickHouse, or in the topic `job.keys` if `ledger`
 * has not copied one yet.
 */
export function closedKeys (
  { bus, codec, clickhouse, recordMac }:
  Pick<Connections, 'bus' | 'codec' | 'clickhouse' | 'recordMac'>
): FindClosed {
  const copy = createJobKeyCopy(clickhouse, recordMac)
  const findInTopic = keysInTopic({ bus, codec })
  return async (tenant, job) => await copy.find(tenant, job) ?? await findInTopic(tenant, job)
}

/** The services of one process share a connection, and so the keys that they read over it. */
const caches = new WeakMap<Connected['state'], KeyCache>()

function cacheOf ({ state }: Pick<Connected, 'state'>): KeyCache {
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
  connected: Connected, config: RootKeySettings<P>,
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
    cache: cacheOf(connected),
    isRunning,
    restore: keysInTopic({ bus, codec }),
    ...findClosed !== undefined && { findClosed },
  })
}

/** Data keys of new jobs, of a service that has the root keys of both parts. */
export function connectNewJobKeys (
  connected: Pick<Connected, 'state' | 'metrics'>, config: RootKeySettings<'results' | 'webhooks'>
): NewJobKeys {
  return createNewJobKeys({
    results: connectOrganizationKeys('results', config, connected),
    webhooks: connectOrganizationKeys('webhooks', config, connected),
  }, cacheOf(connected))
}

/**
 * The keys of jobs that a service without root keys creates: it wraps them with public keys, keeps
 * them for `ttlMs` to seal rows, and cannot open any.
 */
export function connectSealingKeys (
  state: Connected['state'], ttlMs: number
): JobKeys & NewJobKeys {
  const cache = createKeyCache(ttlMs)
  const store = createOrganizationKeyStore(state)
  const keysOf = (part: JobKeyPart) => createPublicOrganizationKeys({ store, class: part })
  const wrap = { results: keysOf('results'), webhooks: keysOf('webhooks') }
  return { ...createNewJobKeys(wrap, cache), ...createdJobKeys(cache) }
}

/**
 * The message codec of a stage that reads or writes rows. If the key of a running job is lost, its
 * messages are dead-lettered and its rows end without a verdict.
 */
export function createJobMessageCodec (
  connected: Connected, config: RootKeySettings<'results'>, findClosed?: FindClosed
): MessageCodec {
  const keys = connectJobKeys(connected, config, { part: 'results', findClosed })
  return createMessageCodec({ codec: connected.codec, keys })
}
