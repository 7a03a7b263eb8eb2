import { createPartners } from '../accounts/partners.ts'
import { wrappedPeople } from '../accounts/people.ts'
import type { OrganizationKeys } from '../accounts/organization-keys.ts'
import { MODES, partsOf, tenantOf } from '../accounts/tenant.ts'
import { wrappedSecrets } from '../webhooks/secrets.ts'
import { createWebhookEndpoints } from '../webhooks/endpoints.ts'
import type { Wrapped } from '../accounts/wrapped.ts'
import { jobKeys } from '../jobs/redis-keys.ts'
import { wrappedInRedis, wrappedInTopic, wrappedJobKey } from '../jobs/wrapped-keys.ts'
import { batchWrites } from '../runtime/platform/batch-writes.ts'
import type { KeyClass } from '../topology.ts'
import type { Stores } from './stores.ts'

/** Everything that keys of organizations wrap, by where it is stored. */
export const KEY_LOCATIONS = [
  'jobKeys', 'jobKeysInTopic', 'jobKeysInClickhouse', 'webhookSecrets', 'people', 'partnerKeys',
] as const

export type KeyLocation = typeof KEY_LOCATIONS[number]
export type WrappedKeySources = Readonly<Record<KeyLocation, () => AsyncIterable<Wrapped>>>

type SourceStores = Pick<Stores, 'redis' | 'codec' | 'producer' | 'read' | 'keyCopy'>
type Options = {
  readonly organizations: readonly string[]
  readonly keys: Readonly<Record<Exclude<KeyClass, 'results'>, OrganizationKeys>>
  /** The id of the active version of the class `results`. */
  readonly activeIdOf: (orgId: string) => string
}

/** Reads all wrapped keys in the stores, one iterable per location. */
export function wrappedKeySources (
  stores: SourceStores, { organizations, keys, activeIdOf }: Options
): WrappedKeySources {
  const { redis } = stores
  const endpoints = createWebhookEndpoints({ redis, keys: keys.webhooks })
  const partners = createPartners({ redis, keys: keys.partners })
  return {
    jobKeys: () => wrappedInRedis(redis),
    jobKeysInTopic: () => wrappedInTopic(stores),
    jobKeysInClickhouse: () => wrappedInClickhouse(stores, activeIdOf),
    async * webhookSecrets () {
      for (const org of organizations) {
        yield * await wrappedSecrets(redis, org)
        yield * await endpoints.wrapped(org)
      }
    },
    async * people () {
      for (const org of organizations) yield * await wrappedPeople(redis, org)
    },
    async * partnerKeys () { yield * await partners.wrapped() },
  }
}

/**
 * The wrapped data keys in ClickHouse. Replacing a key inserts a new row. When its job was erased
 * meanwhile, all rows of the job are deleted instead. After the last insert the replaced rows are
 * deleted.
 */
async function * wrappedInClickhouse (
  { redis, keyCopy }: Pick<Stores, 'redis' | 'keyCopy'>, activeIdOf: Options['activeIdOf']
): AsyncIterable<Wrapped> {
  const append = batchWrites(keyCopy.append)
  const replaced = new Set<string>()
  for await (const key of keyCopy.all()) {
    const { tenant, job } = key
    yield wrappedJobKey(key, async wrapped => {
      replaced.add(partsOf(tenant).orgId)
      await append([{ ...key, wrapped }])
      // An erasure marks the job in Redis before it deletes rows, so either it or this process
      // deletes the row that was just inserted.
      if (await redis.exists(jobKeys(tenant, job).erased) === 0) return true
      await keyCopy.erase(tenant, [job])
      return false
    })
  }
  // Waits for all earlier inserts.
  if (replaced.size > 0) await append([])
  for (const orgId of replaced) {
    await keyCopy.keepWrappedBy(MODES.map(mode => tenantOf(orgId, mode)), activeIdOf(orgId))
  }
}
