import { createPartners } from '../accounts/partners.ts'
import { createRequestSecret } from '../accounts/request-secret.ts'
import { partsOf } from '../accounts/tenant.ts'
import { createWebhookSecrets } from '../accounts/webhook-secrets.ts'
import { dataKeyAad } from '../jobs/job-keys.ts'
import { jobKeys } from '../jobs/redis-keys.ts'
import { wrappedInRedis, wrappedInTopic } from '../jobs/wrapped-keys.ts'
import type { KeyRing, Wrapped } from '../lib/key-ring.ts'
import { together } from '../lib/together.ts'
import { createTenants } from '../money/tenants.ts'
import type { Holders } from './key-stock.ts'
import type { Stores } from './stores.ts'

/** Everything that is wrapped by the ring, wherever it is stored. */
export function holdersIn (
  stores: Pick<Stores, 'redis' | 'codec' | 'producer' | 'read' | 'keyCopy'>, ring: KeyRing
): Holders {
  const { redis } = stores
  const secrets = createWebhookSecrets({ redis, ring })
  async function * webhookSecrets () {
    const orgs = new Set((await createTenants(redis).all()).map(tenant => partsOf(tenant).orgId))
    for (const org of orgs) yield * await secrets.wrapped(org)
  }
  return {
    jobKeys: () => wrappedInRedis(redis),
    jobKeysInTopic: () => wrappedInTopic(stores),
    jobKeysInClickhouse: () => wrappedInClickhouse(stores, ring),
    webhookSecrets,
    partnerKeys: () => listed(createPartners({ redis, ring }).wrapped()),
    requestSecrets: () => listed(createRequestSecret({ redis, ring }).wrapped()),
  }
}

/**
 * The wrapped data keys in ClickHouse. One that is replaced is added, and deleted with all others
 * when its job was erased meanwhile; once all are added, those that were replaced are deleted.
 */
async function * wrappedInClickhouse (
  { redis, keyCopy }: Pick<Stores, 'redis' | 'keyCopy'>, { activeKid }: Pick<KeyRing, 'activeKid'>
): AsyncIterable<Wrapped> {
  const append = together(keyCopy.append)
  let isReplacing = false
  for await (const key of keyCopy.all()) {
    const { tenant, job, wrapped: bytes } = key
    const replace = async (fresh: Buffer) => {
      isReplacing = true
      await append([{ ...key, wrapped: fresh }])
      // Whoever erases a job marks it first, so one of both deletes the last row of it.
      if (await redis.exists(jobKeys(tenant, job).erased) === 0) return true
      await keyCopy.erase(tenant, [job])
      return false
    }
    yield { bytes, binding: dataKeyAad(tenant, job), replace }
  }
  if (!isReplacing) return
  // Behind all that are on their way.
  await append([])
  await keyCopy.keepWrappedBy(activeKid)
}

async function * listed (found: Promise<readonly Wrapped[]>): AsyncIterable<Wrapped> {
  yield * await found
}
