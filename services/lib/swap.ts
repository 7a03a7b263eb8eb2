import type { Redis } from 'ioredis'
import { script } from './redis.ts'

/** A value of its own, or one field of a hash. */
export type SwapPlace = { readonly key: string, readonly field?: string }

/** Puts `after` in the place of `before`, whose expiry stays; false when it holds another value. */
export type Swap = (
  place: SwapPlace, before: Buffer | string, after: Buffer | string,
) => Promise<boolean>

const SOURCE = `
local key, field = KEYS[1], ARGV[3]
local held
if field == '' then
  held = redis.call('GET', key)
else
  held = redis.call('HGET', key, field)
end
if held ~= ARGV[1] then
  return 0
end
if field == '' then
  redis.call('SET', key, ARGV[2], 'KEEPTTL')
else
  redis.call('HSET', key, field, ARGV[2])
end
return 1`

/** Changes of values in Redis that several may change at the same time. */
export function createSwap (redis: Redis): Swap {
  const run = script(redis, { name: 'swap', source: SOURCE, numberOfKeys: 1 })
  return async ({ key, field = '' }, before, after) =>
    await run([key], [before, after, field]) === 1
}
