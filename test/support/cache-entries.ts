import type { Redis } from 'ioredis'

/** Where the cache keeps entries, and where what they hold: one text for all that are alike. */
export type CacheKeys = { readonly buckets: readonly Buffer[], readonly texts: readonly Buffer[] }

/** The keys of the caches whose names begin so, told apart by their types. */
export async function cacheKeys (redis: Redis, start: string): Promise<CacheKeys> {
  const keys = await redis.keysBuffer(`${start}*`)
  const types = await Promise.all(keys.map((key) => redis.type(key)))
  const ofType = (type: string) => keys.filter((_, index) => types[index] === type)
  return { buckets: ofType('hash'), texts: ofType('string') }
}

/** How many entries are there. */
export async function countEntries (redis: Redis, start: string): Promise<number> {
  const { buckets } = await cacheKeys(redis, start)
  const sizes = await Promise.all(buckets.map((bucket) => redis.hlen(bucket)))
  return sizes.reduce((sum, size) => sum + size, 0)
}
