import type { ServiceSlug } from '../topology.ts'
import { createReader, createWriter, isLease, leaseOf, type CachedRecord } from './cache-entries.ts'
import { MAX_FRESHNESS_MS } from './freshness.ts'
import { byVersion, type MaybeOthers } from './other-tokens.ts'
import { TOKEN_BYTES } from './tokens.ts'

export type { CachedRecord } from './cache-entries.ts'
export { pickOthers } from './other-tokens.ts'
export { pickTokens, tokenAt, TOKEN_BYTES, tokensOf } from './tokens.ts'

/** Whose records: a tenant's, of one service, under tokens of one version of the secret. */
export type CacheScope = {
  readonly tenant: string
  readonly service: ServiceSlug
  readonly version: string
  /** The same contacts' tokens by other versions: what stands under them counts as well. */
  readonly others?: MaybeOthers
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
  /**
   * What each contact's entry holds; null where it now holds the lease. `useless` texts are
   * overwritten.
   */
  readonly claim: (
    keys: readonly string[], lease: string,
    options: {
      readonly leaseMs: number
      readonly useless: readonly string[]
      /** Keys a contact has, one a version, in a row: a record or lease under any is its own. */
      readonly versions: number
    },
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
 *
 * While the secret is rotated a contact has an entry under each version that its tokens were made
 * with. Jobs that know only one of them meet there: leases stand under all, and a verdict is kept
 * under the job's own version, and for a day under the others.
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
      const lists = [keys, ...otherKeysOf(scope)]
      return await attempt(() => findAll(commands, lists), nothing)
    },
    claim: async (scope, tokens, claim) => {
      const keys = keysOf(scope, tokens)
      if (keys.length === 0) return []
      const otherwise = keys.map(() => 'mine' as const)
      const lists = [keys, ...otherKeysOf(scope)]
      return await attempt(() => claimAll(commands, lists, claim), otherwise)
    },
    store: async (scope, tokens, records) => {
      const keys = keysOf(scope, tokens)
      const isKept = (_: string, row: number) => isVerdict(records[row])
      const kept = keys.filter(isKept)
      if (kept.length === 0) return
      const values = records.filter(isVerdict).map(createWriter())
      const others = otherKeysOf(scope).map((list) => list.filter(isKept))
      await attempt(() => Promise.all([
        commands.keep(kept, values, MAX_FRESHNESS_MS),
        ...others.map((list) => commands.keep(list, values, MEETING_MS)),
      ]), undefined)
    },
    release: async (scope, tokens, job) => {
      const keys = keysOf(scope, tokens)
      if (keys.length === 0) return
      const all = [...keys, ...otherKeysOf(scope).flat()]
      await attempt(() => commands.release(all, leaseOf(job)), undefined)
    },
  }
}

/** As long as a job that knows only the other version may have parts under way. */
const MEETING_MS = 86_400_000

const isVerdict = (record: CachedRecord | undefined): record is CachedRecord =>
  record !== undefined && record.status !== 'unknown'

/** Keys of entries, one list a version, each with a key a contact. */
type KeyLists = readonly (readonly string[])[]

/** What the first version has no record of is looked for under the next. */
async function findAll (
  commands: CacheCommands, [keys = [], ...others]: KeyLists
): Promise<readonly (CachedRecord | undefined)[]> {
  const read = createReader()
  const found = (await commands.find(keys)).map(read)
  for (const list of others) {
    const rows = [...found.keys()].filter((row) => found[row] === undefined)
    if (rows.length === 0) break
    const texts = await commands.find(rows.map((row) => list[row] ?? ''))
    for (const [index, row] of rows.entries()) found[row] = read(texts[index] ?? null)
  }
  return found
}

/** Records that may not be used are claimed once more, unless they were replaced meanwhile. */
async function claimAll (commands: CacheCommands, lists: KeyLists, claim: Claim):
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
  const ask = (rows: readonly number[], useless: readonly string[]) => {
    const keys = rows.flatMap((row) => lists.map((list) => list[row] ?? ''))
    return commands.claim(keys, own, { leaseMs, useless, versions: lists.length })
  }
  const texts = await ask([...lists[0]?.keys() ?? []], [])
  const first = texts.map(readOne)
  const again = [...first.keys()].filter((row) => first[row] === 'useless')
  if (again.length === 0) return first as readonly Claimed[]
  const useless = [...new Set(again.map((row) => texts[row] ?? ''))]
  const theirs = await ask(again, useless)
  for (const [index, row] of again.entries()) {
    const second = readOne(theirs[index] ?? null)
    first[row] = second === 'useless' ? 'mine' : second
  }
  return first as readonly Claimed[]
}

function otherKeysOf ({ others, ...scope }: CacheScope): KeyLists {
  return byVersion(others).map(({ version, tokens }) => namesOf({ ...scope, version }, tokens))
}

function namesOf ({ tenant, service, version }: CacheScope, tokens: Buffer): readonly string[] {
  const start = `c:{${tenant}}:${service}:${version}:`
  return Array.from({ length: tokens.length / TOKEN_BYTES }, (_, row) =>
    start + tokens.toString('base64url', row * TOKEN_BYTES, (row + 1) * TOKEN_BYTES))
}

/** Names entries; those of the list that was asked for last are remembered, as it comes again. */
function createKeys (): (scope: CacheScope, tokens: Buffer) => readonly string[] {
  const known = new WeakMap<Buffer, readonly string[]>()
  return (scope, tokens) => {
    const { tenant, service, version } = scope
    const found = known.get(tokens)
    const start = `c:{${tenant}}:${service}:${version}:`
    if (found !== undefined && found[0]?.startsWith(start)) return found
    const keys = namesOf(scope, tokens)
    known.set(tokens, keys)
    return keys
  }
}
