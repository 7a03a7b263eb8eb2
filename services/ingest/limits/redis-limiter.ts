import type { Cluster, Redis } from 'ioredis'
import { script } from '../../platform/redis.ts'
import { joinLua } from '../../money/lua.ts'
import type { LimitedRequest, Limiter, LimitsOf } from './limiter.ts'

const CLOCK_LUA = new URL('./clock.lua', import.meta.url)

/**
 * The rate limits of all organizations in Redis, shared by all instances, with one round trip each.
 * `clock` is the Lua file that defines `now_micros`. All functions throw the errors of Redis.
 */
export function createRedisLimiter (
  redis: Redis | Cluster, limits: LimitsOf, clock = CLOCK_LUA
): Limiter {
  const command = (name: string) => {
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
  const [take, refund, read] =
    [command('take'), command('refund'), command('levels')]
  return {
    admit: async request => {
      const { answer, levels } = await take(request)
      return { kind: answer === 'throttled' ? 'throttled' : 'admitted', levels }
    },
    refund: async request => { await refund(request) },
    levels: async request => (await read(request)).levels,
  }
}
