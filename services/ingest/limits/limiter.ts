import type { Redis } from 'ioredis'
import { idempotencyKeyOf } from '../../jobs/redis-keys.ts'
import { script } from '../../lib/redis.ts'
import { joinLua } from '../../money/lua.ts'
import type { Bucket, Level } from './standing.ts'

/** Requests that change something are counted apart from those that only read. */
export type LimitKind = 'post' | 'get'

export type Limits = Readonly<Record<LimitKind, readonly Bucket[]>> & {
  /** Requests of a tenant that may wait for their preflight at once. */
  readonly maxPreflights: number
  /** After so long the place of a request is free although it was never given back. */
  readonly placeKeptMs: number
}

export type Preflight = {
  readonly requestId: string
  /** Empty when the request has none. */
  readonly idempotencyKey: string
}

export type LimitedRequest = {
  readonly tenant: string
  readonly kind: LimitKind
  /** Only of a request that starts a preflight. */
  readonly preflight?: Preflight
}

/**
 * `throttled`: a bucket is empty and nothing was taken. `crowded`: all places for preflights are
 * taken. `release` gives the place of an admitted request back, if it has one.
 */
export type Admission = { readonly levels: readonly Level[] } & (
  | { readonly kind: 'admitted', readonly release: () => void }
  | { readonly kind: 'throttled' | 'crowded' }
)

export type Limiter = {
  /** One round trip to Redis. @throws what Redis does when it can't be asked. */
  readonly admit: (request: LimitedRequest) => Promise<Admission>
}

const CLOCK_LUA = new URL('./clock.lua', import.meta.url)

const keysOf = (tenant: string) => ({
  /** Hash: how full the buckets of a kind are. */
  buckets: (kind: LimitKind) => `limit:{${tenant}}:${kind}`,
  /** Sorted set: requests whose preflight is under way, by the end of their place (Redis, ms). */
  places: `preflights:{${tenant}}`,
})

/**
 * The limits of all tenants, kept in Redis so that they hold whichever instance is asked. `clock`
 * is the Lua file that defines `now_micros`.
 */
export function createLimiter (redis: Redis, limits: Limits, clock = CLOCK_LUA): Limiter {
  const scriptOf = (name: string, numberOfKeys: number) => {
    const files = ['./buckets.lua', `./${name}.lua`].map(path => new URL(path, import.meta.url))
    return script(redis, { name, source: joinLua(clock, ...files), numberOfKeys })
  }
  const scripts = { take: scriptOf('take', 1), admit: scriptOf('admit', 3) }
  const numbers = (kind: LimitKind) =>
    limits[kind].flatMap(({ capacity, seconds }) => [capacity, seconds])

  const release = (tenant: string, { idempotencyKey, requestId }: Preflight) => {
    // A place that can't be given back is free again when its time is over.
    redis.zrem(keysOf(tenant).places, `${idempotencyKey} ${requestId}`).catch(() => {})
  }

  const ask = ({ tenant, kind, preflight }: LimitedRequest): Promise<unknown> => {
    const keys = keysOf(tenant)
    const buckets = keys.buckets(kind)
    if (preflight === undefined) return scripts.take([buckets], numbers(kind))
    const { requestId, idempotencyKey } = preflight
    return scripts.admit(
      [buckets, keys.places, idempotencyKeyOf(tenant, idempotencyKey)],
      [requestId, idempotencyKey, limits.maxPreflights, limits.placeKeptMs, ...numbers(kind)])
  }

  return {
    admit: async (request) => {
      const { tenant, kind, preflight } = request
      const giveBack = () => { if (preflight !== undefined) release(tenant, preflight) }
      try {
        const [answer, ...tokens] = await ask(request) as string[]
        const levels = limits[kind].map((bucket, at) => ({ bucket, tokens: Number(tokens[at]) }))
        if (answer === 'throttled' || answer === 'crowded') return { kind: answer, levels }
        return { kind: 'admitted', levels, release: answer === 'placed' ? giveBack : () => {} }
      } catch (error) {
        // Redis may have done what was asked although its answer came too late.
        giveBack()
        throw error
      }
    },
  }
}
