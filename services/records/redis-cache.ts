import { readFileSync } from 'node:fs'
import type { Redis } from 'ioredis'
import { script } from '../lib/redis.ts'
import {
  createRecordCache, type CacheCommands, type RecordCache, type RecordCacheOptions,
} from './cache.ts'

/** The cache of records in its Redis; keys of one command are of one tenant and hash tag. */
export function redisRecordCache (redis: Redis, options: RecordCacheOptions = {}): RecordCache {
  return createRecordCache(commandsOf(redis), options)
}

function commandsOf (redis: Redis): CacheCommands {
  const named = (name: string) => {
    const source = readFileSync(new URL(`./${name}.lua`, import.meta.url), 'utf8')
    return script(redis, { name, source, numberOfKeys: 'any' })
  }
  const claim = named('claim')
  const keep = named('keep')
  const release = named('release')
  return {
    find: (keys) => redis.mget([...keys]),
    claim: async (keys, lease, { leaseMs, useless, versions }) =>
      await claim(keys, [lease, leaseMs, versions, ...useless]) as (string | null)[],
    keep: (keys, values, ms) => {
      const numbers = new Map<string, number>()
      for (const value of values) {
        if (!numbers.has(value)) numbers.set(value, numbers.size + 1)
      }
      const numberOfEach = values.map((value) => numbers.get(value)).join(' ')
      return keep(keys, [ms, numberOfEach, ...numbers.keys()])
    },
    release: (keys, lease) => release(keys, [lease]),
  }
}
