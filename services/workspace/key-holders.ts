import { createPartners } from '../accounts/partners.ts'
import { createRequestSecret } from '../accounts/request-secret.ts'
import { partsOf } from '../accounts/tenant.ts'
import { createWebhookSecrets } from '../accounts/webhook-secrets.ts'
import { wrappedInRedis, wrappedInTopic } from '../jobs/wrapped-keys.ts'
import type { KeyRing, Wrapped } from '../lib/key-ring.ts'
import { createTenants } from '../money/tenants.ts'
import type { Holders } from './key-stock.ts'
import type { Stores } from './stores.ts'

/** Everything that is wrapped by the ring, wherever it is stored. */
export function holdersIn (
  stores: Pick<Stores, 'redis' | 'codec' | 'producer' | 'read'>, ring: KeyRing
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
    webhookSecrets,
    partnerKeys: () => listed(createPartners({ redis, ring }).wrapped()),
    requestSecrets: () => listed(createRequestSecret({ redis, ring }).wrapped()),
  }
}

async function * listed (found: Promise<readonly Wrapped[]>): AsyncIterable<Wrapped> {
  yield * await found
}
