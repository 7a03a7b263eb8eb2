import { LRUCache } from 'lru-cache'

type Bucket = {
  tokens: number
  filledAtMs: number
  /** When the attempt that was refused last may come again. */
  retryAtMs: number
}

/** More hosts at a time than these get a full bucket too early. */
const MAX_HOSTS = 10_000

/**
 * Limits the attempts of this process to each host: a token bucket for one second of the rate. The
 * function takes a token for an attempt to a URL; it returns 0, or the ms to wait without one. The
 * waits of refused attempts are one token apart, so that they return one after the other, in their
 * order. Hosts are compared by name and port.
 */
export function createHostRate (
  perSecond: number, now: () => number = () => performance.now()
): (url: string) => number {
  const buckets = new LRUCache<string, Bucket>({ max: MAX_HOSTS })
  const tokenMs = 1_000 / perSecond
  return url => {
    const host = URL.parse(url)?.host ?? ''
    const nowMs = now()
    const bucket = buckets.get(host) ?? { tokens: perSecond, filledAtMs: nowMs, retryAtMs: 0 }
    buckets.set(host, bucket)
    const filled = bucket.tokens + (nowMs - bucket.filledAtMs) / tokenMs
    bucket.tokens = Math.min(perSecond, filled)
    bucket.filledAtMs = nowMs
    if (bucket.tokens >= 1) {
      bucket.tokens -= 1
      return 0
    }
    const nextMs = nowMs + (1 - bucket.tokens) * tokenMs
    bucket.retryAtMs = Math.max(nextMs, bucket.retryAtMs + tokenMs)
    return Math.ceil(bucket.retryAtMs - nowMs)
  }
}
