/** Holds `capacity` tokens; an empty one is full again after so many seconds. */
export type Bucket = { readonly capacity: number, readonly seconds: number }

/** A bucket and how many tokens are in it, fractions included. */
export type Level = { readonly bucket: Bucket, readonly tokens: number }

/**
 * The headers that tell a client where it stands: limit and remainder of the bucket with the fewest
 * requests left, whole seconds until that one is full, and every bucket as `capacity;w=seconds`.
 */
export function rateLimitHeaders (levels: readonly Level[]): Record<string, string> {
  const nearest = levels.reduce((least, level) =>
    remaining(level) < remaining(least) ? level : least)
  return {
    'ratelimit-limit': String(nearest.bucket.capacity),
    'ratelimit-remaining': String(remaining(nearest)),
    'ratelimit-reset': String(Math.ceil(secondsUntil(nearest, nearest.bucket.capacity))),
    'ratelimit-policy': levels.map(({ bucket }) => `${bucket.capacity};w=${bucket.seconds}`)
      .join(', '),
  }
}

/** Seconds until every bucket has a token again, whole and at least 1. */
export function retryAfterSeconds (levels: readonly Level[]): number {
  return Math.max(1, ...levels.map(level => Math.ceil(secondsUntil(level, 1))))
}

function remaining ({ tokens }: Level): number {
  return Math.max(0, Math.floor(tokens))
}

function secondsUntil ({ bucket, tokens }: Level, wanted: number): number {
  return Math.max(0, wanted - tokens) * bucket.seconds / bucket.capacity
}
