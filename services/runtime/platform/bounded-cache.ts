import { LRUCache } from 'lru-cache'

type Limits = {
  /** The most entries; the least recently used one goes first. */
  readonly entries: number
  /** Milliseconds for which an entry is kept; without it none expires. */
  readonly ttl?: number | undefined
  /** Another clock for expiry than that of the process. */
  readonly now?: (() => number) | undefined
}

/**
 * A cache that takes memory for the entries that it has: by `max`, `lru-cache` reserves some 44
 * bytes for each possible one at once, 4 MB for 100,000.
 */
export function boundedCache<V extends {}> ({ entries, ttl, now }: Limits): LRUCache<string, V> {
  return new LRUCache<string, V>({
    maxSize: entries,
    sizeCalculation: () => 1,
    ...ttl !== undefined && { ttl },
    ...now !== undefined && { perf: { now }, ttlResolution: 0 },
  })
}
