import { readFileSync } from 'node:fs'
import type { Metrics } from '../runtime/platform/metrics.ts'
import { type RedisClient, script } from '../runtime/platform/redis.ts'
import {
  createRecordCache, keyPrefixOf, type RecordCache, type RecordCacheOptions,
} from './cache.ts'
import type { CacheCommands } from './entries.ts'
import type { Redis } from 'ioredis'
import { mastersOf } from '../runtime/platform/cells.ts'
import { SERVICE_SLUGS } from '../topology.ts'

/** `metrics` counts looked-up rows. */
export type RedisCacheOptions = RecordCacheOptions & { readonly metrics?: Pick<Metrics, 'count'> }

/**
 * The cache of records in Redis. Scripts get the prefix of the entry names and one buffer of
 * tokens: naming a thousand entries one by one would cost more than reading them. All entries of
 * one command have the same hash tag (of tenant and service), so they are on one node of a cluster,
 * except while it moves their slot: then they are misses.
 */
export function redisRecordCache (
  redis: RedisClient, options: RedisCacheOptions = {}
): RecordCache {
  const cache = createRecordCache(commandsOf(redis), options)
  const { metrics } = options
  return metrics === undefined ? cache : { ...cache, ...countLookups(cache, metrics) }
}

function commandsOf (redis: RedisClient): CacheCommands {
  const named = (name: string, numberOfKeys: number | 'any') => {
    const source = ['common', name].map(readScript).join('\n')
    return script(redis, { name, source, numberOfKeys, binary: true })
  }
  const find = named('find', 1)
  const claim = named('claim', 'any')
  const put = named('put', 1)
  const release = named('release', 1)
  const erase = named('erase', 1)
  return {
    find: async ({ keyPrefix, tokens }) => unpackStrings(await find([keyPrefix], [tokens])),
    claim: async (lists, own, { ms, stale }) => {
      const { numbers, texts } = packStrings(own)
      const tokens = lists.map((list) => list.tokens)
      const prefixes = lists.map(({ keyPrefix }) => keyPrefix)
      const rest = [texts.length, ...texts, ...tokens, ...stale]
      return unpackStrings(await claim(prefixes, [ms, numbers, ...rest]))
    },
    put: async ({ keyPrefix, tokens }, kept, ms) => {
      const { numbers, texts } = packStrings(kept)
      await put([keyPrefix], [ms, numbers, tokens, ...texts])
    },
    release: async ({ keyPrefix, tokens }, lease) => {
      await release([keyPrefix], [tokens, lease])
    },
    erase: async ({ keyPrefix, tokens }, lease) => {
      await erase([keyPrefix], [tokens, lease])
    },
  }
}

function readScript (name: string): string {
  return readFileSync(new URL(`./${name}.lua`, import.meta.url), 'utf8')
}

/** Counts looked-up rows as found or missing. */
export function countLookups (
  cache: Pick<RecordCache, 'find'>, metrics: Pick<Metrics, 'count'>
): Pick<RecordCache, 'find'> {
  return {
    find: async (scope, tokens) => {
      const records = await cache.find(scope, tokens)
      const found = records.filter(record => record !== undefined).length
      const { service } = scope
      metrics.count('cache_lookups_total', { service, outcome: 'found' }, found)
      metrics.count('cache_lookups_total', { service, outcome: 'missing' }, records.length - found)
      return records
    },
  }
}

/** Strings of rows: each distinct one once, and for each row its number in two bytes. */
export type StringDictionary = { readonly numbers: Buffer, readonly texts: readonly string[] }

/** In the format of the Lua scripts: numbers start at 1. */
export function packStrings (rows: readonly string[]): StringDictionary {
  const known = new Map<string, number>()
  const numbers = Buffer.allocUnsafe(rows.length * 2)
  for (let row = 0; row < rows.length; row++) {
    const text = rows[row] ?? ''
    const number = known.get(text) ?? known.size + 1
    if (number > known.size) known.set(text, number)
    numbers[row * 2] = number >> 8
    numbers[row * 2 + 1] = number & 0xff
  }
  return { numbers, texts: [...known.keys()] }
}

/** Decodes the reply of a script: the string of each row, or null. Equal rows share one string. */
export function unpackStrings (reply: unknown): readonly (string | null)[] {
  const [numbers, parts] = reply as readonly [Buffer, readonly Buffer[]]
  const rows = new Array<string | null>(numbers.length / 2).fill(null)
  if (parts.length === 0) return rows
  const texts = parts.map((part) => part.toString())
  for (let row = 0; row < rows.length; row++) {
    rows[row] = texts[numbers.readUInt16BE(row * 2) - 1] ?? null
  }
  return rows
}

const NAMES_PER_SCAN = 1_000

/**
 * Deletes the cached records of a tenant, of all services and versions of the cache secret, and
 * returns their number. A few of another tenant may go too, whose names share 36 bits; they are
 * misses then.
 */
export async function eraseTenantRecords (cache: RedisClient, tenant: string): Promise<number> {
  let deleted = 0
  for await (const { master, names } of recordNames(cache, tenant)) {
    deleted += await master.unlink(...names)
  }
  return deleted
}

/** Counts what `eraseTenantRecords` would delete; a record may count twice, none is missed. */
export async function countTenantRecords (cache: RedisClient, tenant: string): Promise<number> {
  let count = 0
  for await (const { names } of recordNames(cache, tenant)) count += names.length
  return count
}

type FoundNames = { readonly master: Redis, readonly names: readonly Buffer[] }

/** The names of the cached records of a tenant: no texts, as they end in the bytes of a token. */
async function * recordNames (cache: RedisClient, tenant: string): AsyncIterable<FoundNames> {
  const prefixes = SERVICE_SLUGS.map(service => keyPrefixOf({ tenant, service, version: '' }))
  for (const master of await mastersOf(cache)) {
    for (const prefix of new Set(prefixes.map(name => name.slice(0, name.indexOf('}') + 1)))) {
      const scan = master.scanBufferStream({ match: `${prefix}*`, count: NAMES_PER_SCAN })
      for await (const names of scan as AsyncIterable<readonly Buffer[]>) {
        if (names.length > 0) yield { master, names }
      }
    }
  }
}
