import { LRUCache } from 'lru-cache'
import { connectOrganizationKeys } from '../../../services/accounts/connect-organization-keys.ts'
import type { OrganizationKeys } from '../../../services/accounts/organization-keys.ts'
import {
  createJobKeys, createNewJobKeys, type JobKeys, type JobKeysOptions, KEY_CACHE_MS,
  type NewJobKeys,
} from '../../../services/jobs/job-keys.ts'
import { createKeyRing } from '../../../services/runtime/crypto/key-ring.ts'
import { rootKeys } from '../../../services/runtime/platform/config.ts'
import { globalKey, type RedisClient } from '../../../services/runtime/platform/redis.ts'
import { KEY_CLASSES, PROCESS_KEYS } from '../../../services/topology.ts'

/** The hash of the wrapped keys of an organization in Redis. */
export const organizationKeysKey = (orgId: string): string =>
  globalKey(`organization-keys:${orgId}`)

/** Keys of organizations without stores: all organizations have the same, made of these bytes. */
export function organizationKeysOf (...bytes: readonly [number, ...number[]]): OrganizationKeys {
  const keys = new Map(bytes.map(byte => [`k${byte}`, Buffer.alloc(32, byte)]))
  const ring = createKeyRing({ name: 'test keys', keys, active: `k${bytes.at(-1)}` })
  return {
    wrap: async (_orgId, plain, binding) => ring.wrap(plain, binding),
    unwrap: async (_orgId, wrapped, binding) => ring.unwrap(wrapped, binding),
    whenShipped: async () => {},
  }
}

/** The data keys of jobs, new and stored ones, under the same keys of organizations. */
export function jobKeysOf (
  { keys = organizationKeysOf(1), ...options }:
  Omit<JobKeysOptions, 'part' | 'keys'> & { readonly keys?: OrganizationKeys }
): JobKeys & NewJobKeys {
  const cache = options.cache ?? new LRUCache<string, Buffer>({
    max: 5_000, ttl: KEY_CACHE_MS, ttlAutopurge: true,
  })
  return {
    ...createNewJobKeys({ results: keys, webhooks: keys }, cache),
    ...createJobKeys({ ...options, cache, part: 'results', keys }),
  }
}

/** The root keys of all classes in the environment of a stack. */
export const rootKeysIn = (env: Readonly<Record<string, string | undefined>>) => ({
  RESULTS_ROOT_KEYS: keysIn(env.RESULTS_ROOT_KEYS),
  RESULTS_ROOT_KEY_ACTIVE: env.RESULTS_ROOT_KEY_ACTIVE ?? '',
  WEBHOOKS_ROOT_KEYS: keysIn(env.WEBHOOKS_ROOT_KEYS),
  WEBHOOKS_ROOT_KEY_ACTIVE: env.WEBHOOKS_ROOT_KEY_ACTIVE ?? '',
  PARTNERS_ROOT_KEYS: keysIn(env.PARTNERS_ROOT_KEYS),
  PARTNERS_ROOT_KEY_ACTIVE: env.PARTNERS_ROOT_KEY_ACTIVE ?? '',
})

/** The keys that wrap the webhook secrets of a stack. */
export const webhookKeysIn = (
  env: Readonly<Record<string, string | undefined>>, state: RedisClient
): OrganizationKeys => connectOrganizationKeys('webhooks', rootKeysIn(env), { state })

const keysIn = (text = '{}') => JSON.parse(text) as Record<string, string>

/** Those settings of an environment that name root keys. */
export const rootSettingsIn = (
  env: Readonly<Record<string, string | undefined>>
): Readonly<Record<string, string | undefined>> =>
  Object.fromEntries(Object.entries(env).filter(([name]) => /_ROOT_KEY(S|_ACTIVE)$/.test(name)))

/** The settings of root keys, of all classes. */
export const ROOT_KEY_NAMES = KEY_CLASSES.map(name => `${name.toUpperCase()}_ROOT_KEYS`)

const LOCAL_ROOT_KEYS = JSON.stringify({ 1: Buffer.alloc(32, 1).toString('base64') })

/** Root keys of all classes as environment variables, for processes without stores. */
export const ROOT_KEY_SETTINGS = Object.fromEntries(
  ['RESULTS', 'WEBHOOKS', 'PARTNERS'].flatMap(name => [
    [`${name}_ROOT_KEYS`, LOCAL_ROOT_KEYS], [`${name}_ROOT_KEY_ACTIVE`, '1'],
  ])) as Readonly<Record<
  `${'RESULTS' | 'WEBHOOKS' | 'PARTNERS'}_ROOT_KEY${'S' | '_ACTIVE'}`, string>>

/** The settings that a process refuses because none of its services needs them, unset. */
export function withoutForeignRootKeys (
  services: readonly string[]
): Readonly<Record<string, undefined>> {
  const needed = Object.entries(PROCESS_KEYS)
    .flatMap(([name, classes]) => services.includes(name) ? classes : [])
  return Object.fromEntries(KEY_CLASSES.filter(keyClass => !needed.includes(keyClass))
    .flatMap(keyClass => rootKeys[keyClass].map(setting => [setting, undefined])))
}
