import type { Cluster, Redis } from 'ioredis'
import { script } from '../../platform/redis.ts'
import { joinLua } from '../../money/lua.ts'
import type { LimitedRequest, Limiter, LimitsOf } from './limiter.ts'

const CLOCK_LUA = new URL('./clock.lua', import.meta.url)

/**
 * The limits of all organizations, kept in Redis so that they hold across instances: one round trip
 * each. `clock` is the Lua file that defines `now_micros`. All functions throw what Redis does when
 * it can't be asked.
 */
export function createRedisLimiter (
  redis: Redis | Cluster, limits: LimitsOf, clock = CLOCK_LUA
): Limiter {
  const ask = (name: string) => {
    const files = ['./buckets.lua', `./${name}.lua`].map(path => new URL(path, import.meta.url))
    const run = script(redis, { name, source: joinLua(clock, ...files), numberOfKeys: 1 })
    return async ({ org, kind }: LimitedRequest) => {
      const buckets = limits(org)[kind]
      const numbers = buckets.flatMap(({ capacity, seconds }) => [capacity, seconds])
      const [answer, ...tokens] = await run([`limit:{${org}}:${kind}`], numbers) as string[]
      const levels = buckets.map((bucket, at) => ({ bucket, tokens: Number(tokens[at]) }))
      return { answer, levels }
    }
  }
  const [take, putBack, read] = [ask('take'), ask('give-back'), ask('levels')]
  return {
    admit: async request => {
      const { answer, levels } = await take(request)
      return { kind: answer === 'throttled' ? 'throttled' : 'admitted', levels }
    },
    giveBack: async request => { await putBack(request) },
    levels: async request => (await read(request)).levels,
  }
}
