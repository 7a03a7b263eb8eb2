import { mastersOf } from '../platform/cells.ts'
import type { RedisClient } from '../platform/redis.ts'
import { SERVICE_SLUGS } from '../topology.ts'
import { keyPrefixOf } from './cache.ts'

const NAMES_PER_SCAN = 1_000

/**
 * Deletes the cached records of a tenant, of all services and versions of the cache secret. A few
 * of another tenant may go too, whose names share 36 bits; they are misses then.
 */
export async function eraseTenantRecords (cache: RedisClient, tenant: string): Promise<number> {
  const prefixes = SERVICE_SLUGS.map(service => keyPrefixOf({ tenant, service, version: '' }))
  let deleted = 0
  for (const master of await mastersOf(cache)) {
    for (const prefix of new Set(prefixes.map(name => name.slice(0, name.indexOf('}') + 1)))) {
      const names = master.scanStream({ match: `${prefix}*`, count: NAMES_PER_SCAN })
      for await (const found of names as AsyncIterable<readonly string[]>) {
        if (found.length > 0) deleted += await master.unlink(...found)
      }
    }
  }
  return deleted
}
