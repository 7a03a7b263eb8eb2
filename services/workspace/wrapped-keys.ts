import { createPartners } from '../accounts/partners.ts'
import { createRequestSecret, wrappedSecrets } from '../accounts/webhook-secrets.ts'
import { partsOf } from '../accounts/tenant.ts'
import { createWebhookEndpoints } from '../accounts/webhook-endpoints.ts'
import { dataKeyAad } from '../jobs/job-keys.ts'
import { jobKeys } from '../jobs/redis-keys.ts'
import { wrappedInRedis, wrappedInTopic } from '../jobs/wrapped-keys.ts'
import type { KeyRing, Wrapped } from '../crypto/key-ring.ts'
import { batchWrites } from '../platform/batch-writes.ts'
import { createTenants } from '../money/tenants.ts'
import type { Stores } from './stores.ts'

/** Everything that the key ring wraps, by where it is stored. */
export const KEY_LOCATIONS = [
  'jobKeys', 'jobKeysInTopic', 'jobKeysInClickhouse', 'webhookSecrets', 'partnerKeys',
  'requestSecrets',
] as const

export type KeyLocation = typeof KEY_LOCATIONS[number]
export type WrappedKeySources = Readonly<Record<KeyLocation, () => AsyncIterable<Wrapped>>>

/** Reads all wrapped keys in the stores, one iterable per location. */
export function wrappedKeySources (
  stores: Pick<Stores, 'redis' | 'codec' | 'producer' | 'read' | 'keyCopy'>, ring: KeyRing
): WrappedKeySources {
  const { redis } = stores
  const endpoints = createWebhookEndpoints({ redis, ring })
  return {
    jobKeys: () => wrappedInRedis(redis),
    jobKeysInTopic: () => wrappedInTopic(stores),
    jobKeysInClickhouse: () => wrappedInClickhouse(stores, ring),
    async * webhookSecrets () {
      const orgs = new Set((await createTenants(redis).all()).map(tenant => partsOf(tenant).orgId))
      for (const org of orgs) {
        yield * await wrappedSecrets(redis, org)
        yield * await endpoints.wrapped(org)
      }
    },
    async * partnerKeys () { yield * await createPartners({ redis, ring }).wrapped() },
    async * requestSecrets () { yield * await createRequestSecret({ redis, ring }).wrapped() },
  }
}

/**
 * The wrapped data keys in ClickHouse. Replacing a key inserts a new row. When its job was erased
 * meanwhile, all rows of the job are deleted instead. After the last insert the replaced rows are
 * deleted.
 */
async function * wrappedInClickhouse (
  { redis, keyCopy }: Pick<Stores, 'redis' | 'keyCopy'>, { activeKid }: Pick<KeyRing, 'activeKid'>
): AsyncIterable<Wrapped> {
  const append = batchWrites(keyCopy.append)
  let isReplacing = false
  for await (const key of keyCopy.all()) {
    const { tenant, job, wrapped: bytes } = key
    const replace = async (rewrapped: Buffer) => {
      isReplacing = true
      await append([{ ...key, wrapped: rewrapped }])
      // An erasure marks the job in Redis before it deletes rows, so either it or this process
      // deletes the row that was just inserted.
      if (await redis.exists(jobKeys(tenant, job).erased) === 0) return true
      await keyCopy.erase(tenant, [job])
      return false
    }
    yield { bytes, binding: dataKeyAad(tenant, job), replace }
  }
  if (!isReplacing) return
  // Waits for all earlier inserts.
  await append([])
  await keyCopy.keepWrappedBy(activeKid)
}
