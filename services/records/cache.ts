import { readFileSync } from 'node:fs'
import type { Redis } from 'ioredis'
import { script } from '../lib/redis.ts'
import type { ServiceSlug } from '../topology.ts'
import { MAX_FRESHNESS_MS } from './freshness.ts'
import { REASONS, VERDICTS, type CheckedRecord } from './record.ts'

/** A token is the first 16 bytes of an HMAC; lists of them are one Buffer of 16 bytes a row. */
export const TOKEN_BYTES = 16

/** A verdict in a tenant's cache, with the job that paid for it. */
export type CachedRecord = CheckedRecord & { readonly job: string }

/** Whose records: a tenant's, of one service, under tokens of one version of the secret. */
export type CacheScope = {
  readonly tenant: string
  readonly service: ServiceSlug
  readonly version: string
}

export type FreshRecord = { readonly token: Buffer, readonly record: CachedRecord }

export type RecordCache = {
  /** One entry a token, in order; a miss is undefined. */
  readonly find: (scope: CacheScope, tokens: Buffer) =>
  Promise<readonly (CachedRecord | undefined)[]>
  /** Keeps verdicts for others; `unknown` is never kept, because it is no verdict. */
  readonly store: (scope: CacheScope, records: readonly FreshRecord[]) => Promise<void>
}

/** What is asked of Redis: one command a list, as commands by the row cost more than checks. */
export type CacheCommands = {
  readonly find: (keys: string[]) => Promise<(string | null)[]>
  /** Keeps one value a key for so many milliseconds. */
  readonly keep: (
    keys: readonly string[], values: readonly string[], ms: number,
  ) => Promise<unknown>
}

/** `onFault` is told of a cache that cannot be used, for logs; the pipeline goes on without it. */
export type RecordCacheOptions = { readonly onFault?: (error: unknown) => void }

const KEEP_LUA = new URL('./keep.lua', import.meta.url)

/** The commands of the cache on its Redis; keys of one call are of one tenant and hash tag. */
export function cacheCommands (redis: Redis): CacheCommands {
  const source = readFileSync(KEEP_LUA, 'utf8')
  const keep = script(redis, { name: 'keep', source, numberOfKeys: 'any' })
  return {
    find: (keys) => redis.mget(keys),
    keep: (keys, values, ms) => {
      const numbers = new Map<string, number>()
      for (const value of values) {
        if (!numbers.has(value)) numbers.set(value, numbers.size + 1)
      }
      const numberOfEach = values.map((value) => numbers.get(value)).join(' ')
      return keep(keys, [ms, numberOfEach, ...numbers.keys()])
    },
  }
}

/**
 * The tenants' caches: `c:{tenant}:<service>:<version>:<token base64url>`, kept for 90 days. A
 * cache is never needed: one that is down, or an entry that cannot be read, is a miss, and what
 * could not be kept will be checked again.
 */
export function createRecordCache (
  commands: CacheCommands, { onFault = () => {} }: RecordCacheOptions = {}
): RecordCache {
  return {
    find: async (scope, tokens) => {
      const keys = keysOf(scope, tokens)
      if (keys.length === 0) return []
      try {
        return readRecords(await commands.find(keys))
      } catch (error) {
        onFault(error)
        return keys.map(() => undefined)
      }
    },
    store: async (scope, records) => {
      const kept = records.filter(({ record }) => record.status !== 'unknown')
      if (kept.length === 0) return
      const start = startOf(scope)
      const keys = kept.map(({ token }) => start + token.toString('base64url'))
      const values = textsOf(kept)
      try {
        await commands.keep(keys, values, MAX_FRESHNESS_MS)
      } catch (error) {
        onFault(error)
      }
    },
  }
}

/** The tokens of a list, as views of it. */
export function tokensOf (tokens: Buffer): readonly Buffer[] {
  return Array.from({ length: tokens.length / TOKEN_BYTES }, (_, row) => tokenAt(tokens, row))
}

/** One token of a list, as a view of it. */
export function tokenAt (tokens: Buffer, row: number): Buffer {
  return tokens.subarray(row * TOKEN_BYTES, (row + 1) * TOKEN_BYTES)
}

/** What all keys of a scope begin with. */
function startOf ({ tenant, service, version }: CacheScope): string {
  return `c:{${tenant}}:${service}:${version}:`
}

function keysOf (scope: CacheScope, tokens: Buffer): string[] {
  const start = startOf(scope)
  return Array.from({ length: tokens.length / TOKEN_BYTES }, (_, row) =>
    start + tokens.toString('base64url', row * TOKEN_BYTES, (row + 1) * TOKEN_BYTES))
}

/** Records that are one object for many contacts are written once. */
function textsOf (records: readonly FreshRecord[]): readonly string[] {
  const known = new Map<CachedRecord, string>()
  return records.map(({ record }) => {
    const text = known.get(record) ?? JSON.stringify(record)
    known.set(record, text)
    return text
  })
}

/** Contacts of the same job and range have the same record, which is read and held once. */
function readRecords (texts: readonly (string | null)[]): (CachedRecord | undefined)[] {
  const known = new Map<string, CachedRecord | undefined>()
  return texts.map((text) => {
    if (text === null) return undefined
    const found = known.get(text)
    if (found !== undefined || known.has(text)) return found
    const record = readRecord(text)
    known.set(text, record)
    return record
  })
}

function readRecord (text: string): CachedRecord | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return isRecord(value) ? value : undefined
  } catch {
    return undefined
  }
}

function isRecord (value: unknown): value is CachedRecord {
  if (typeof value !== 'object' || value === null) return false
  const { status, reason, confidence, fields, checkedAtMs, job } = value as Record<string, unknown>
  return status !== 'unknown' && isOneOf(VERDICTS, status) && isOneOf(REASONS, reason) &&
    typeof confidence === 'number' && typeof fields === 'object' && fields !== null &&
    typeof checkedAtMs === 'number' && typeof job === 'string'
}

function isOneOf (list: readonly string[], value: unknown): boolean {
  return typeof value === 'string' && list.includes(value)
}
