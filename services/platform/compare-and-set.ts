import type { Redis } from 'ioredis'
import { script } from './redis.ts'

/** Puts `after` in the place of `before`, whose expiry stays; false when it holds another value. */
export type CompareAndSet = (
  key: string, before: Buffer | string, after: Buffer | string,
) => Promise<boolean>

const SOURCE = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('SET', KEYS[1], ARGV[2], 'KEEPTTL')
return 1`

/** Changes of values in Redis that several may change at the same time. */
export function createCompareAndSet (redis: Redis): CompareAndSet {
  const run = script(redis, { name: 'swap', source: SOURCE, numberOfKeys: 1 })
  return async (key, before, after) => await run([key], [before, after]) === 1
}
