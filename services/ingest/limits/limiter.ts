import type { Redis } from 'ioredis'
import { script } from '../../lib/redis.ts'
import { joinLua } from '../../money/lua.ts'
import type { Bucket, Level } from './standing.ts'

/** Requests that change something are counted apart from those that only read. */
export type LimitKind = 'post' | 'get'

export type Limits = Readonly<Record<LimitKind, readonly Bucket[]>>

export type LimitedRequest = { readonly tenant: string, readonly kind: LimitKind }

/** `throttled`: a bucket is empty and nothing was taken. */
export type Admission = {
  readonly kind: 'admitted' | 'throttled'
  readonly levels: readonly Level[]
}

/** One round trip to Redis each. Both throw what Redis does when it can't be asked. */
export type Limiter = {
  readonly admit: (request: LimitedRequest) => Promise<Admission>
  /** Puts back what an admitted request took; returns the levels since. */
  readonly giveBack: (request: LimitedRequest) => Promise<readonly Level[]>
}

const CLOCK_LUA = new URL('./clock.lua', import.meta.url)

/**
 * The limits of all tenants, kept in Redis so that they hold whichever instance is asked. `clock`
 * is the Lua file that defines `now_micros`.
 */
export function createLimiter (redis: Redis, limits: Limits, clock = CLOCK_LUA): Limiter {
  const ask = (name: string) => {
    const files = ['./buckets.lua', `./${name}.lua`].map(path => new URL(path, import.meta.url))
    const run = script(redis, { name, source: joinLua(clock, ...files), numberOfKeys: 1 })
    return async ({ tenant, kind }: LimitedRequest) => {
      const numbers = limits[kind].flatMap(({ capacity, seconds }) => [capacity, seconds])
      const [answer, ...tokens] = await run([`limit:{${tenant}}:${kind}`], numbers) as string[]
      const levels = limits[kind].map((bucket, at) => ({ bucket, tokens: Number(tokens[at]) }))
      return { answer, levels }
    }
  }
  const [take, putBack] = [ask('take'), ask('give-back')]
  return {
    admit: async request => {
      const { answer, levels } = await take(request)
      return { kind: answer === 'throttled' ? 'throttled' : 'admitted', levels }
    },
    giveBack: async request => (await putBack(request)).levels,
  }
}
