import type { ServiceSlug } from '../topology.ts'
import { createReader, createWriter, isLease, leaseOf, type CachedRecord } from './cache-entries.ts'
import { MAX_FRESHNESS_MS } from './freshness.ts'

export type { CachedRecord } from './cache-entries.ts'

/** A token is the first 16 bytes of an HMAC; lists of them are one Buffer of 16 bytes a row. */
export const TOKEN_BYTES = 16

/** Whose records: a tenant's, of one service, under tokens of one version of the secret. */
export type CacheScope = {
  readonly tenant: string
  readonly service: ServiceSlug
  readonly version: string
}

/** A contact's record; else whether the check is the claiming job's to make, or another's. */
export type Claimed = CachedRecord | 'mine' | 'held'

export type Claim = {
  /** The job that would pay. A contact stands only once in it, so its leases are found again. */
  readonly job: string
  /** After so long another job may check a contact that still has no record. */
  readonly leaseMs: number
  /** Whether a record may answer the job; one that may not is checked again. */
  readonly usable: (record: CachedRecord) => boolean
}

export type RecordCache = {
  /** One entry a token, in order; a miss is undefined. */
  readonly find: (scope: CacheScope, tokens: Buffer) =>
  Promise<readonly (CachedRecord | undefined)[]>
  /** As `find`, and leases what has no usable record, so that no other job buys the same check. */
  readonly claim: (scope: CacheScope, tokens: Buffer, claim: Claim) =>
  Promise<readonly Claimed[]>
  /**
   * Keeps the verdicts, one entry a token or undefined, in place of leases. An `unknown` is no
   * verdict and never kept.
   */
  readonly store: (
    scope: CacheScope, tokens: Buffer, records: readonly (CachedRecord | undefined)[],
  ) => Promise<void>
  /** Lets others check; a lease that ended meanwhile and is another's now is left alone. */
  readonly release: (scope: CacheScope, tokens: Buffer, job: string) => Promise<void>
}

/** What is asked of Redis: one command a list, as commands by the row cost more than checks. */
export type CacheCommands = {
  readonly find: (keys: readonly string[]) => Promise<readonly (string | null)[]>
  /** What each entry holds; null where it now holds the lease. `useless` texts are overwritten. */
  readonly claim: (
    keys: readonly string[], lease: string,
    options: { readonly leaseMs: number, readonly useless: readonly string[] },
  ) => Promise<readonly (string | null)[]>
  /** Keeps one value a key for so many milliseconds. */
  readonly keep: (
    keys: readonly string[], values: readonly string[], ms: number,
  ) => Promise<unknown>
  /** Ends the leases that are still the owner's. */
  readonly release: (keys: readonly string[], lease: string) => Promise<unknown>
}

/** `onFault` is told of a cache that cannot be used, for logs; the pipeline goes on without it. */
export type RecordCacheOptions = { readonly onFault?: (error: unknown) => void }

/**
 * The tenants' caches: `c:{tenant}:<service>:<version>:<token base64url>`, kept for 90 days. An
 * entry is a record, or the lease of a job that has the contact under check. A cache is never
 * needed: one that is down, or an entry that cannot be read, is a miss, and what could not be kept
 * will be checked again. A lease saves money and protects nothing.
 */
export function createRecordCache (
  commands: CacheCommands, { onFault = () => {} }: RecordCacheOptions = {}
): RecordCache {
  const keysOf = createKeys()
  const attempt = async <T>(action: () => Promise<T>, otherwise: T): Promise<T> => {
    try {
      return await action()
    } catch (error) {
      onFault(error)
      return otherwise
    }
  }
  return {
    find: async (scope, tokens) => {
      const keys = keysOf(scope, tokens)
      if (keys.length === 0) return []
      const nothing = keys.map(() => undefined)
      return await attempt(async () => (await commands.find(keys)).map(createReader()), nothing)
    },
    claim: async (scope, tokens, claim) => {
      const keys = keysOf(scope, tokens)
      if (keys.length === 0) return []
      return await attempt(() => claimAll(commands, keys, claim), keys.map(() => 'mine' as const))
    },
    store: async (scope, tokens, records) => {
      const keys = keysOf(scope, tokens)
      const kept = keys.filter((_, row) => isVerdict(records[row]))
      if (kept.length === 0) return
      const values = records.filter(isVerdict).map(createWriter())
      await attempt(() => commands.keep(kept, values, MAX_FRESHNESS_MS), undefined)
    },
    release: async (scope, tokens, job) => {
      const keys = keysOf(scope, tokens)
      if (keys.length === 0) return
      await attempt(() => commands.release(keys, leaseOf(job)), undefined)
    },
  }
}

const isVerdict = (record: CachedRecord | undefined): record is CachedRecord =>
  record !== undefined && record.status !== 'unknown'

/** Records that may not be used are claimed once more, unless they were replaced meanwhile. */
async function claimAll (commands: CacheCommands, keys: readonly string[], claim: Claim):
Promise<readonly Claimed[]> {
  const { job, leaseMs, usable } = claim
  const own = leaseOf(job)
  const read = createReader()
  const readOne = (text: string | null): Claimed | 'useless' => {
    if (text === null || text === own) return 'mine'
    if (isLease(text)) return 'held'
    const record = read(text)
    return record !== undefined && usable(record) ? record : 'useless'
  }
  const texts = await commands.claim(keys, own, { leaseMs, useless: [] })
  const first = texts.map(readOne)
  const again = [...first.keys()].filter((row) => first[row] === 'useless')
  if (again.length === 0) return first as readonly Claimed[]
  const useless = [...new Set(again.map((row) => texts[row] ?? ''))]
  const theirs = await commands.claim(again.map((row) => keys[row] ?? ''), own, {
    leaseMs, useless,
  })
  for (const [index, row] of again.entries()) {
    const second = readOne(theirs[index] ?? null)
    first[row] = second === 'useless' ? 'mine' : second
  }
  return first as readonly Claimed[]
}

/** The tokens of a list, as views of it. */
export function tokensOf (tokens: Buffer): readonly Buffer[] {
  return Array.from({ length: tokens.length / TOKEN_BYTES }, (_, row) => tokenAt(tokens, row))
}

/** One token of a list, as a view of it. */
export function tokenAt (tokens: Buffer, row: number): Buffer {
  return tokens.subarray(row * TOKEN_BYTES, (row + 1) * TOKEN_BYTES)
}

/** The tokens at some places of a list. */
export function pickTokens (tokens: Buffer, rows: readonly number[]): Buffer {
  if (rows.length * TOKEN_BYTES === tokens.length) return tokens
  return Buffer.concat(rows.map((row) => tokenAt(tokens, row)))
}

/** Names entries; those of the list that was asked for last are remembered, as it comes again. */
function createKeys (): (scope: CacheScope, tokens: Buffer) => readonly string[] {
  const known = new WeakMap<Buffer, readonly string[]>()
  return ({ tenant, service, version }, tokens) => {
    const start = `c:{${tenant}}:${service}:${version}:`
    const found = known.get(tokens)
    if (found !== undefined && found[0]?.startsWith(start)) return found
    const keys = Array.from({ length: tokens.length / TOKEN_BYTES }, (_, row) =>
      start + tokens.toString('base64url', row * TOKEN_BYTES, (row + 1) * TOKEN_BYTES))
    known.set(tokens, keys)
    return keys
  }
}
