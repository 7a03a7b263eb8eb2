import { readFileSync } from 'node:fs'
import type { Cluster, Redis } from 'ioredis'
import type { Metrics } from '../platform/metrics.ts'
import { script } from '../platform/redis.ts'
import {
  createRecordCache, type CacheCommands, type RecordCache, type RecordCacheOptions,
} from './cache.ts'
import { countLookups } from './count-lookups.ts'
import { packStrings, unpackStrings } from './string-dictionary.ts'

/** `metrics` counts the rows that are looked up. */
export type RedisCacheOptions = RecordCacheOptions & { readonly metrics?: Pick<Metrics, 'count'> }

/**
 * The cache of records in its Redis. Scripts are given what the names of entries begin with, and
 * the tokens that end them in one piece: to name a thousand entries one by one costs the client and
 * Redis more than to read them. All entries of one command have one hash tag, that of their tenant
 * and service, so a cluster has them where the beginning of their names leads to, but for the
 * moments in which it moves a slot: then they are misses.
 */
export function redisRecordCache (
  redis: Redis | Cluster, options: RedisCacheOptions = {}
): RecordCache {
  const cache = createRecordCache(commandsOf(redis), options)
  const { metrics } = options
  return metrics === undefined ? cache : { ...cache, ...countLookups(cache, metrics) }
}

function commandsOf (redis: Redis | Cluster): CacheCommands {
  const named = (name: string, numberOfKeys: number | 'any') => {
    const source = ['common', name].map(readScript).join('\n')
    return script(redis, { name, source, numberOfKeys, binary: true })
  }
  const find = named('find', 1)
  const claim = named('claim', 'any')
  const keep = named('keep', 1)
  const release = named('release', 1)
  return {
    find: async ({ start, tokens }) => unpackStrings(await find([start], [tokens])),
    claim: async (lists, own, { ms, useless }) => {
      const { numbers, texts } = packStrings(own)
      const tokens = lists.map((list) => list.tokens)
      const starts = lists.map(({ start }) => start)
      const rest = [texts.length, ...texts, ...tokens, ...useless]
      return unpackStrings(await claim(starts, [ms, numbers, ...rest]))
    },
    keep: async ({ start, tokens }, kept, ms) => {
      const { numbers, texts } = packStrings(kept)
      await keep([start], [ms, numbers, tokens, ...texts])
    },
    release: async ({ start, tokens }, lease) => { await release([start], [tokens, lease]) },
  }
}

function readScript (name: string): string {
  return readFileSync(new URL(`./${name}.lua`, import.meta.url), 'utf8')
}
