import { LRUCache } from 'lru-cache'
import type { LimitedRequest, LimitsOf, LocalLimiter } from './limiter.ts'
import type { Level } from './rate-limit-headers.ts'

type Filled = { readonly atMs: number, readonly levels: readonly Level[] }

/** About 3 MB. The least recently used are forgotten, which refills them. */
const MAX_ORGS_AND_KINDS = 10_000

/**
 * Rate limits in the memory of this process, with the algorithm of `buckets.lua`. `now` is a
 * monotonic clock, in milliseconds.
 */
export function createLocalLimiter (
  limits: LimitsOf, now: () => number = () => performance.now()
): LocalLimiter {
  const known = new LRUCache<string, Filled>({ max: MAX_ORGS_AND_KINDS })
  const fill = ({ org, kind }: LimitedRequest): Filled => {
    const atMs = now()
    const last = known.get(`${org}:${kind}`)
    const levels = limits(org)[kind].map((bucket, at) => {
      const { tokens = bucket.capacity } = last?.levels[at] ?? {}
      return flowIn({ bucket, tokens }, atMs - (last?.atMs ?? atMs))
    })
    return { atMs, levels }
  }
  const add = ({ org, kind }: LimitedRequest, filled: Filled, count: number) => {
    const levels = filled.levels.map(({ bucket, tokens }) =>
      ({ bucket, tokens: Math.min(tokens + count, bucket.capacity) }))
    known.set(`${org}:${kind}`, { atMs: filled.atMs, levels })
    return levels
  }
  return {
    admit: request => {
      const filled = fill(request)
      const isEnough = filled.levels.every(({ tokens }) => tokens >= 1)
      const levels = add(request, filled, isEnough ? -1 : 0)
      return { kind: isEnough ? 'admitted' : 'throttled', levels }
    },
    refund: request => { add(request, fill(request), 1) },
    levels: request => fill(request).levels,
  }
}

function flowIn ({ bucket, tokens }: Level, elapsedMs: number): Level {
  const { capacity, seconds } = bucket
  const perMicro = capacity / (seconds * 1_000_000)
  return { bucket, tokens: Math.min(tokens + elapsedMs * 1_000 * perMicro, capacity) }
}
