import { LRUCache } from 'lru-cache'

/** A token bucket of `capacity` tokens; an empty one is full again after `seconds`. */
export type Bucket = { readonly capacity: number, readonly seconds: number }

/** A bucket with its current number of tokens, fractions included; below 0 it is in debt. */
export type Level = { readonly bucket: Bucket, readonly tokens: number }

type Filled = { readonly atMs: number, readonly levels: readonly Level[] }

/** About 3 MB. The least recently used are forgotten, which refills them. */
const MAX_NAMES = 10_000

/**
 * Token buckets in the memory of this process, several for each name, with the algorithm of
 * `ingest/limits/buckets.lua`. `now` is a monotonic clock, in milliseconds.
 */
export function createTokenBuckets (
  now: () => number = () => performance.now(), maxNames = MAX_NAMES
) {
  const filled = new LRUCache<string, Filled>({ max: maxNames })
  const fill = (name: string, buckets: readonly Bucket[]): Filled => {
    const atMs = now()
    const last = filled.get(name)
    const levels = buckets.map((bucket, at) => {
      const { tokens = bucket.capacity } = last?.levels[at] ?? {}
      return flowIn({ bucket, tokens }, atMs - (last?.atMs ?? atMs))
    })
    return { atMs, levels }
  }
  const add = (name: string, { atMs, levels }: Filled, count: number): readonly Level[] => {
    const after = levels.map(({ bucket, tokens }) =>
      ({ bucket, tokens: Math.min(tokens + count, bucket.capacity) }))
    filled.set(name, { atMs, levels: after })
    return after
  }
  return {
    /** Takes a token from every bucket of the name, or none if one of them is empty. */
    take: (name: string, buckets: readonly Bucket[]) => {
      const current = fill(name, buckets)
      const isTaken = current.levels.every(({ tokens }) => tokens >= 1)
      return { isTaken, levels: add(name, current, isTaken ? -1 : 0) }
    },
    /** Adds tokens to every bucket up to its capacity, or takes them, even more than there are. */
    add: (name: string, buckets: readonly Bucket[], count: number): void => {
      add(name, fill(name, buckets), count)
    },
    levels: (name: string, buckets: readonly Bucket[]) => fill(name, buckets).levels,
  }
}

function flowIn ({ bucket, tokens }: Level, elapsedMs: number): Level {
  const { capacity, seconds } = bucket
  const perMicro = capacity / (seconds * 1_000_000)
  return { bucket, tokens: Math.min(tokens + elapsedMs * 1_000 * perMicro, capacity) }
}

/** Seconds until a bucket has so many tokens. */
export function secondsUntil ({ bucket, tokens }: Level, wanted: number): number {
  return Math.max(0, wanted - tokens) * bucket.seconds / bucket.capacity
}

/** Seconds until every bucket has a token, an integer of at least 1. */
export function retryAfterSeconds (levels: readonly Level[]): number {
  return Math.max(1, ...levels.map(level => Math.ceil(secondsUntil(level, 1))))
}
