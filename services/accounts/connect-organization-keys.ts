import {
  createRootKeys, readRootKeyHolders, refuseUnknownRootKeys, type RootKeyMetrics, type RootKeys,
} from '../runtime/crypto/root-keys.ts'
import { MissingKeyError } from '../runtime/crypto/key-ring.ts'
import { SealError } from '../runtime/crypto/seal.ts'
import { rootKeys } from '../runtime/platform/config.ts'
import type { RedisClient } from '../runtime/platform/redis.ts'
import { UsageError } from '../runtime/platform/run-command.ts'
import { KEY_CLASSES, type KeyClass } from '../topology.ts'
import {
  addOrganizationKey, createOrganizationKeys, type KeyVersion, organizationKeyId,
  type OrganizationKeys, OrganizationKeyStore, type StoredKey, toRootContext,
} from './organization-keys.ts'

/** The settings of the root keys of a class. */
export type RootKeySettings<C extends KeyClass = KeyClass> =
  { readonly [Name in `${Uppercase<C>}_ROOT_KEYS`]: Readonly<Record<string, string>> } &
  { readonly [Name in `${Uppercase<C>}_ROOT_KEY_ACTIVE`]: string }

/** The root keys of a class; throws ConfigError for an invalid setting. */
function openRootKeys<C extends KeyClass> (
  keyClass: C, config: RootKeySettings<C>, metrics?: RootKeyMetrics
): RootKeys {
  const [setting, activeSetting] = rootKeys[keyClass]
  const { [setting]: keys, [activeSetting]: active } = config as Readonly<Record<string, unknown>>
  return createRootKeys({
    setting, keys: keys as Readonly<Record<string, string>>, active: String(active),
  }, { metrics })
}

/** The services of one process share a connection, and so the keys that they read over it. */
const connected = new WeakMap<RedisClient, Map<KeyClass, OrganizationKeys>>()

/** The keys of organizations for a class, on the state Redis of a service. */
export function connectOrganizationKeys<C extends KeyClass> (
  keyClass: C, config: RootKeySettings<C>,
  { state, metrics }: { readonly state: RedisClient, readonly metrics?: RootKeyMetrics }
): OrganizationKeys {
  const shared = connected.get(state) ?? new Map<KeyClass, OrganizationKeys>()
  connected.set(state, shared)
  const keys = shared.get(keyClass) ?? createOrganizationKeys({
    class: keyClass,
    roots: openRootKeys(keyClass, config, metrics),
    store: new OrganizationKeyStore(state),
    ...metrics && { metrics },
  })
  shared.set(keyClass, keys)
  return keys
}

/** The keys of organizations of all classes, for commands of operators. */
export function connectAllKeys (redis: RedisClient, config: RootKeySettings) {
  const store = new OrganizationKeyStore(redis)
  const openKeys = <C extends KeyClass>(keyClass: C) =>
    connectOrganizationKeys(keyClass, config as RootKeySettings<C>, { state: redis })
  const roots = Object.fromEntries(KEY_CLASSES.map(keyClass =>
    [keyClass, openRootKeys(keyClass, config)])) as Readonly<Record<KeyClass, RootKeys>>
  const checkRootKeys = async () =>
    refuseUnknownRootKeys(await readRootKeyHolders(redis), roots)
  const add = async (orgId: string, version: number): Promise<void> => {
    await Promise.all(KEY_CLASSES.map(keyClass =>
      addOrganizationKey({ store, roots: roots[keyClass], class: keyClass }, orgId, version)))
  }
  return {
    store,
    roots,
    results: openKeys('results'),
    webhooks: openKeys('webhooks'),
    partners: openKeys('partners'),
    /**
     * Creates the keys of all classes for an organization that does not exist yet.
     * @throws UsageError when a running process lacks a root key that would wrap them.
     */
    create: async (orgId: string): Promise<void> => {
      await checkRootKeys()
      await add(orgId, 1)
    },

    /**
     * Adds a version of the keys of all classes and returns it. `inTopic` is what the topic
     * `organization.keys` had before: a number that Redis lost must not be given to another key.
     * @throws UsageError likewise, when Redis lacks keys that the topic has, or has none at all,
     * and when a present key does not open.
     */
    rotate: async (orgId: string, inTopic: readonly KeyVersion[]): Promise<number> => {
      await checkRootKeys()
      const keys = await store.read(orgId)
      if (keys.length === 0) await store.checkComplete(orgId)
      refuseMissingKeys(orgId, keys, inTopic)
      for (const key of keys) await refuseUnreadableKey(roots, orgId, key)
      const version = Math.max(...keys.map(key => key.version)) + 1
      await add(orgId, version)
      return version
    },
  }
}

function refuseMissingKeys (
  orgId: string, keys: readonly StoredKey[], inTopic: readonly KeyVersion[]
): void {
  const missing = inTopic.filter(written => keys.every(key =>
    key.class !== written.class || key.version < written.version))
  if (missing.length > 0) {
    throw new UsageError(`the state Redis lacks keys of organization ${orgId}: ` +
      `${missing.map(organizationKeyId).toSorted().join(', ')}. Restart every ledger, which ` +
      'restores them from topic organization.keys. Nothing was changed.')
  }
  if (keys.length > 0) return
  throw new UsageError(`organization ${orgId} has no keys in the state Redis, and none in topic ` +
    'organization.keys. Nothing was changed: deploy/docs/keys.md says what can be done ' +
    '("Lost keys of an organization").')
}

/** A process opens all keys of a class together: beside one that does not open, new ones fail. */
async function refuseUnreadableKey (
  roots: Readonly<Record<KeyClass, RootKeys>>, orgId: string, key: StoredKey
): Promise<void> {
  try {
    await roots[key.class].unwrap(key.wrapped, toRootContext(orgId, key.class))
  } catch (error) {
    if (!(error instanceof MissingKeyError || error instanceof SealError)) throw error
    const reason = error instanceof MissingKeyError ? error.lack : error.message
    throw new UsageError(`key ${organizationKeyId(key)} of organization ${orgId} does not open: ` +
      `${reason}. Nothing was changed.`, { cause: error })
  }
}
