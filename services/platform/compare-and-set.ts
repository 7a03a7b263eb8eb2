import type { Redis } from 'ioredis'
import { script } from './redis.ts'

/** Replaces `before` by `after` and keeps its TTL; false if the key has another value. */
export type CompareAndSet = (
  key: string, before: Buffer | string, after: Buffer | string,
) => Promise<boolean>

const SOURCE = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('SET', KEYS[1], ARGV[2], 'KEEPTTL')
return 1`

/** Compare-and-set on Redis strings that several processes change. */
export function createCompareAndSet (redis: Redis): CompareAndSet {
  const run = script(redis, { name: 'swap', source: SOURCE, numberOfKeys: 1 })
  return async (key, before, after) => await run([key], [before, after]) === 1
}
