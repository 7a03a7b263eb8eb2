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

/** The commands used of a Redis client. */
export type CacheCommands = {
  mget (keys: string[]): Promise<(string | null)[]>
  set (key: string, value: string, unit: 'PX', ms: number): Promise<unknown>
}

/** `onFault` is told of a cache that cannot be used, for logs; the pipeline goes on without it. */
export type RecordCacheOptions = { readonly onFault?: (error: unknown) => void }

/**
 * The tenants' caches: `c:{tenant}:<service>:<version>:<token base64url>`, kept for 90 days. A
 * cache is never needed: one that is down, or an entry that cannot be read, is a miss, and what
 * could not be kept will be checked again.
 */
export function createRecordCache (
  redis: CacheCommands, { onFault = () => {} }: RecordCacheOptions = {}
): RecordCache {
  return {
    find: async (scope, tokens) => {
      const keys = tokensOf(tokens).map((token) => keyOf(scope, token))
      if (keys.length === 0) return []
      try {
        return (await redis.mget(keys)).map(readRecord)
      } catch (error) {
        onFault(error)
        return keys.map(() => undefined)
      }
    },
    store: async (scope, records) => {
      try {
        await Promise.all(records
          .filter(({ record }) => record.status !== 'unknown')
          .map(({ token, record }) =>
            redis.set(keyOf(scope, token), JSON.stringify(record), 'PX', MAX_FRESHNESS_MS)))
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

function keyOf ({ tenant, service, version }: CacheScope, token: Buffer): string {
  return `c:{${tenant}}:${service}:${version}:${token.toString('base64url')}`
}

function readRecord (text: string | null): CachedRecord | undefined {
  if (text === null) return undefined
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
