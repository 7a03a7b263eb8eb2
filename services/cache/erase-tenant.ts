import type { Redis } from 'ioredis'
import { mastersOf } from '../runtime/platform/cells.ts'
import type { RedisClient } from '../runtime/platform/redis.ts'
import { SERVICE_SLUGS } from '../topology.ts'
import { keyPrefixOf } from './cache.ts'

const NAMES_PER_SCAN = 1_000

/**
 * Deletes the cached records of a tenant, of all services and versions of the cache secret, and
 * returns their number. A few of another tenant may go too, whose names share 36 bits; they are
 * misses then.
 */
export async function eraseTenantRecords (cache: RedisClient, tenant: string): Promise<number> {
  let deleted = 0
  for await (const { master, names } of recordNames(cache, tenant)) {
    deleted += await master.unlink(...names)
  }
  return deleted
}

/** Counts what `eraseTenantRecords` would delete; a record may count twice, none is missed. */
export async function countTenantRecords (cache: RedisClient, tenant: string): Promise<number> {
  let count = 0
  for await (const { names } of recordNames(cache, tenant)) count += names.length
  return count
}

type FoundNames = { readonly master: Redis, readonly names: readonly Buffer[] }

/** The names of the cached records of a tenant: no texts, as they end in the bytes of a token. */
async function * recordNames (cache: RedisClient, tenant: string): AsyncIterable<FoundNames> {
  const prefixes = SERVICE_SLUGS.map(service => keyPrefixOf({ tenant, service, version: '' }))
  for (const master of await mastersOf(cache)) {
    for (const prefix of new Set(prefixes.map(name => name.slice(0, name.indexOf('}') + 1)))) {
      const found = master.scanBufferStream({ match: `${prefix}*`, count: NAMES_PER_SCAN })
      for await (const names of found as AsyncIterable<readonly Buffer[]>) {
        if (names.length > 0) yield { master, names }
      }
    }
  }
}
