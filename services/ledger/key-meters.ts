import { createOrganizationKeyStore, lacksKeys } from '../accounts/organization-key-store.ts'
import { createOrganizations } from '../accounts/organizations.ts'
import { partsOf } from '../accounts/tenant.ts'
import type { Tenants } from '../money/tenants.ts'
import { createCachedReading } from '../platform/cached-reading.ts'
import type { Log } from '../platform/log.ts'
import type { Metrics } from '../platform/metrics.ts'
import type { RedisClient } from '../platform/redis.ts'

type KeyDeps = {
  readonly redis: RedisClient
  readonly tenants: Pick<Tenants, 'all'>
  readonly metrics: Pick<Metrics, 'watchAll'>
  readonly log: Pick<Log, 'warn'>
}

/** Each read covers all organizations, so there is one a minute at most. */
const READ_EVERY_MS = 60_000
const ORGANIZATIONS_PER_BATCH = 500

/** Reports how many organizations lack keys in Redis, of which no request can be served then. */
export function watchOrganizationKeys ({ redis, tenants, metrics, log }: KeyDeps): void {
  const read = createCachedReading(async () => [await countWithoutKeys({ redis, tenants })], {
    name: 'the keys of organizations', log, minAgeMs: READ_EVERY_MS, maxAgeMs: 3 * READ_EVERY_MS,
  })
  metrics.watchAll('organizations_without_keys', async () =>
    (await read()).map(value => ({ labels: {}, value })))
}

/** How many organizations that were not erased have no key of some class. */
export async function countWithoutKeys (
  { redis, tenants }: Pick<KeyDeps, 'redis' | 'tenants'>
): Promise<number> {
  const store = createOrganizationKeyStore(redis)
  const { isErased } = createOrganizations(redis)
  const isMissing = async (orgId: string) =>
    lacksKeys(await store.read(orgId)) && !await isErased(orgId)
  const ids = [...new Set((await tenants.all()).map(tenant => partsOf(tenant).orgId))]
  let count = 0
  for (let from = 0; from < ids.length; from += ORGANIZATIONS_PER_BATCH) {
    const batch = ids.slice(from, from + ORGANIZATIONS_PER_BATCH)
    count += (await Promise.all(batch.map(isMissing))).filter(Boolean).length
  }
  return count
}
