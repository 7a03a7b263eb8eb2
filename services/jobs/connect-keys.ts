import {
  createJobKeys, createKeyCache, keysInTopic, type JobKeys, type JobKeysOptions, type KeyCache,
} from './job-keys.ts'
import { createJobStore } from './store.ts'
import { createMessageCodec } from './message-codec.ts'
import type { Connections } from '../engine/connections.ts'
import { createKeyRing } from '../crypto/key-ring.ts'
import type { MessageCodec } from '../engine/stage.ts'
import { createJobKeyCopy } from './job-key-copy.ts'

type Connected = Pick<Connections, 'bus' | 'codec' | 'state'>
type RingConfig = Parameters<typeof createKeyRing>[0]

/**
 * Finds the wrapped data keys of closed jobs in ClickHouse, or in the topic `job.keys` if `ledger`
 * has not copied one yet.
 */
export function closedKeys (
  { bus, codec, clickhouse, recordMac }:
  Pick<Connections, 'bus' | 'codec' | 'clickhouse' | 'recordMac'>
): NonNullable<JobKeysOptions['findClosed']> {
  const copy = createJobKeyCopy(clickhouse, recordMac)
  const findInTopic = keysInTopic({ bus, codec })
  return async (tenant, job) => await copy.find(tenant, job) ?? await findInTopic(tenant, job)
}

/** The services of one process share a connection, and so the keys that they read over it. */
const caches = new WeakMap<Connected['state'], KeyCache>()

/**
 * The data keys of jobs, from the connections of a service and the key ring of its configuration.
 * Restores the missing key of a running job from the topic `job.keys`. Finds keys of closed jobs by
 * `findClosed`, if it is given.
 */
export function connectJobKeys (
  { bus, codec, state }: Connected, config: RingConfig, findClosed?: JobKeysOptions['findClosed']
): JobKeys {
  const store = createJobStore(state)
  const isRunning = async (tenant: string, job: string): Promise<boolean> => {
    const outcome = await store.outcome(tenant, job)
    return outcome.kind === 'accepted' && !outcome.job.closed
  }
  const ring = createKeyRing(config)
  const restore = keysInTopic({ bus, codec })
  const cache = caches.get(state) ?? createKeyCache()
  caches.set(state, cache)
  return createJobKeys({
    redis: state, ring, cache, isRunning, restore, ...findClosed !== undefined && { findClosed },
  })
}

/**
 * The message codec of a stage that reads or writes rows. If the key of a running job is lost, its
 * messages are dead-lettered and its rows end without a verdict.
 */
export function createJobMessageCodec (
  connected: Connected, config: RingConfig, findClosed?: JobKeysOptions['findClosed']
): MessageCodec {
  const keys = connectJobKeys(connected, config, findClosed)
  return createMessageCodec({ codec: connected.codec, keys })
}
