/** A token bucket of `capacity` tokens; an empty one is full again after `seconds`. */
export type Bucket = { readonly capacity: number, readonly seconds: number }

/** A bucket with its current number of tokens, fractions included. */
export type Level = { readonly bucket: Bucket, readonly tokens: number }

/**
 * The rate limit headers: limit and remainder of the bucket with the fewest tokens, seconds until
 * it is full, and every bucket as `capacity;w=seconds`.
 */
export function rateLimitHeaders (levels: readonly Level[]): Record<string, string> {
  const nearest = levels.reduce((least, level) =>
    remainingOf(level) < remainingOf(least) ? level : least)
  return {
    'ratelimit-limit': String(nearest.bucket.capacity),
    'ratelimit-remaining': String(remainingOf(nearest)),
    'ratelimit-reset': String(Math.ceil(secondsUntil(nearest, nearest.bucket.capacity))),
    'ratelimit-policy': levels.map(({ bucket }) => `${bucket.capacity};w=${bucket.seconds}`)
      .join(', '),
  }
}

/** Seconds until every bucket has a token, an integer of at least 1. */
export function retryAfterSeconds (levels: readonly Level[]): number {
  return Math.max(1, ...levels.map(level => Math.ceil(secondsUntil(level, 1))))
}

function remainingOf ({ tokens }: Level): number {
  return Math.max(0, Math.floor(tokens))
}

function secondsUntil ({ bucket, tokens }: Level, wanted: number): number {
  return Math.max(0, wanted - tokens) * bucket.seconds / bucket.capacity
}
