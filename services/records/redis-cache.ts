import { readFileSync } from 'node:fs'
import type { Redis } from 'ioredis'
import { script } from '../lib/redis.ts'
import {
  createRecordCache, type CacheCommands, type RecordCache, type RecordCacheOptions,
} from './cache.ts'

/**
 * The cache of records in its Redis. Scripts are given what the names of entries begin with, and
 * the tokens that end them in one piece: to name a thousand entries one by one costs the client and
 * Redis more than to read them. All entries of one command have the hash tag of their tenant, so a
 * cluster has them where the beginning of their names leads to, but for the moments in which it
 * moves a slot: then they are misses.
 */
export function redisRecordCache (redis: Redis, options: RecordCacheOptions = {}): RecordCache {
  return createRecordCache(commandsOf(redis), options)
}

type Texts = readonly (string | null)[]

function commandsOf (redis: Redis): CacheCommands {
  const named = (name: string, numberOfKeys: number | 'any') => {
    const source = readFileSync(new URL(`./${name}.lua`, import.meta.url), 'utf8')
    return script(redis, { name, source, numberOfKeys })
  }
  const find = named('find', 1)
  const claim = named('claim', 'any')
  const keep = named('keep', 1)
  const release = named('release', 1)
  return {
    find: async ({ start, tokens }) => await find([start], [tokens]) as Texts,
    claim: async (lists, lease, { leaseMs, useless }) => {
      const tokens = lists.map((list) => list.tokens)
      const starts = lists.map(({ start }) => start)
      return await claim(starts, [lease, leaseMs, ...tokens, ...useless]) as Texts
    },
    keep: async ({ start, tokens }, values, ms) => {
      const numbers = new Map<string, number>()
      for (const value of values) {
        if (!numbers.has(value)) numbers.set(value, numbers.size + 1)
      }
      const numberOfEach = values.map((value) => numbers.get(value)).join(' ')
      await keep([start], [tokens, ms, numberOfEach, ...numbers.keys()])
    },
    release: async ({ start, tokens }, lease) => { await release([start], [tokens, lease]) },
  }
}
