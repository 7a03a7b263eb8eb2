import type { RootKeyMetrics } from '../crypto/root-keys/root-key.ts'
import { createRootKeys, type RootKeys } from '../crypto/root-keys/root-keys.ts'
import { rootKeys } from '../platform/config.ts'
import type { RedisClient } from '../platform/redis.ts'
import { UsageError } from '../platform/run-command.ts'
import { readRootKeyHolders, refuseUnknownRootKeys } from '../platform/root-key-holders.ts'
import { KEY_CLASSES, type KeyClass } from '../topology.ts'
import { createOrganizationKeyStore } from './organization-key-store.ts'
import {
  addOrganizationKey, createOrganizationKeys, type OrganizationKeys,
} from './organization-keys.ts'

/** The settings of the root keys of a class. */
export type RootKeySettings<C extends KeyClass = KeyClass> =
  { readonly [Name in `${Uppercase<C>}_ROOT_KEYS`]: Readonly<Record<string, string>> } &
  { readonly [Name in `${Uppercase<C>}_ROOT_KEY_ACTIVE`]: string }

/** The root keys of a class; throws ConfigError for an invalid setting. */
export function rootKeysOf<C extends KeyClass> (
  keyClass: C, config: RootKeySettings<C>, metrics?: RootKeyMetrics
): RootKeys {
  const [setting, activeSetting] = rootKeys[keyClass]
  const { [setting]: keys, [activeSetting]: active } = config as Readonly<Record<string, unknown>>
  return createRootKeys({
    setting, keys: keys as Readonly<Record<string, string>>, active: String(active),
  }, { metrics })
}

/** The services of one process share a connection, and so the keys that they read over it. */
const known = new WeakMap<RedisClient, Map<KeyClass, OrganizationKeys>>()

/** The keys of organizations for a class, on the state Redis of a service. */
export function connectOrganizationKeys<C extends KeyClass> (
  keyClass: C, config: RootKeySettings<C>,
  { state, metrics }: { readonly state: RedisClient, readonly metrics?: RootKeyMetrics }
): OrganizationKeys {
  const shared = known.get(state) ?? new Map<KeyClass, OrganizationKeys>()
  known.set(state, shared)
  const keys = shared.get(keyClass) ?? createOrganizationKeys({
    class: keyClass,
    roots: rootKeysOf(keyClass, config, metrics),
    store: createOrganizationKeyStore(state),
    ...metrics && { metrics },
  })
  shared.set(keyClass, keys)
  return keys
}

/** The keys of organizations of all classes, for commands of operators. */
export function connectAllKeys (redis: RedisClient, config: RootKeySettings) {
  const store = createOrganizationKeyStore(redis)
  const keysOf = <C extends KeyClass>(keyClass: C) =>
    connectOrganizationKeys(keyClass, config as RootKeySettings<C>, { state: redis })
  const roots = Object.fromEntries(KEY_CLASSES.map(keyClass =>
    [keyClass, rootKeysOf(keyClass, config)])) as Readonly<Record<KeyClass, RootKeys>>
  const add = async (orgId: string, version: number): Promise<void> => {
    refuseUnknownRootKeys(await readRootKeyHolders(redis), roots)
    await Promise.all(KEY_CLASSES.map(keyClass =>
      addOrganizationKey({ store, roots: roots[keyClass], class: keyClass }, orgId, version)))
  }
  return {
    store,
    roots,
    results: keysOf('results'),
    webhooks: keysOf('webhooks'),
    partners: keysOf('partners'),
    /**
     * Creates the keys of all classes for an organization that does not exist yet.
     * @throws UsageError when a running process lacks a root key that would wrap them.
     */
    create: (orgId: string): Promise<void> => add(orgId, 1),

    /**
     * Adds a version of the keys of all classes and returns it.
     * @throws UsageError likewise, and when Redis has no key of the organization: the next version
     * is unknown then, and could replace one that is in use.
     */
    rotate: async (orgId: string): Promise<number> => {
      const versions = (await store.read(orgId)).map(key => key.version)
      if (versions.length === 0) {
        await store.checkComplete(orgId)
        throw new UsageError(`organization ${orgId} has no keys in the state Redis. Restart ` +
          'every ledger, which restores them from topic organization.keys.')
      }
      const version = Math.max(...versions) + 1
      await add(orgId, version)
      return version
    },
  }
}
