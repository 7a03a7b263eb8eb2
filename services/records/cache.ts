import type { ServiceSlug } from '../topology.ts'
import { createReader, createWriter, isLease, leaseOf, type CachedRecord } from './cache-entries.ts'
import { MAX_FRESHNESS_MS } from './freshness.ts'
import { byVersion, type MaybeOthers } from './other-tokens.ts'
import { pickTokens, TOKEN_BYTES } from './tokens.ts'

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

/** Entries of a cache: the name of each is `start` and the 16 bytes of its token. */
export type Entries = { readonly start: string, readonly tokens: Buffer }

/** What is asked of Redis: one command a list, as commands by the row cost more than checks. */
export type CacheCommands = {
  readonly find: (entries: Entries) => Promise<readonly (string | null)[]>
  /**
   * What each contact's entry holds; null where it now holds the lease. `useless` texts are
   * overwritten. There is a list for each version of the tokens, with the same contacts: a record
   * or lease under any is the contact's own.
   */
  readonly claim: (
    lists: readonly Entries[], lease: string,
    options: { readonly leaseMs: number, readonly useless: readonly string[] },
  ) => Promise<readonly (string | null)[]>
  /** Keeps one value an entry for so many milliseconds. */
  readonly keep: (entries: Entries, values: readonly string[], ms: number) => Promise<void>
  /** Ends the leases that are still the owner's. */
  readonly release: (entries: Entries, lease: string) => Promise<void>
}

/** `onFault` is told of a cache that cannot be used, for logs; the pipeline goes on without it. */
export type RecordCacheOptions = { readonly onFault?: (error: unknown) => void }

/**
 * The tenants' caches: `c:{tenant}:<service>:<version>:<token>` (16 bytes), kept for 90 days. An
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
      const rows = rowsOf(tokens)
      if (rows === 0) return []
      const nothing = new Array<undefined>(rows).fill(undefined)
      return await attempt(() => findAll(commands, entriesOf(scope, tokens)), nothing)
    },
    claim: async (scope, tokens, claim) => {
      const rows = rowsOf(tokens)
      if (rows === 0) return []
      const otherwise = new Array<'mine'>(rows).fill('mine')
      return await attempt(() => claimAll(commands, entriesOf(scope, tokens), claim), otherwise)
    },
    store: async (scope, tokens, records) => {
      const rows = [...records.keys()].filter((row) => isVerdict(records[row]))
      if (rows.length === 0) return
      const values = records.filter(isVerdict).map(createWriter())
      const lists = entriesOf(scope, tokens)
      await attempt(() => Promise.all(lists.map((list, index) =>
        commands.keep(pick(list, rows), values, index === 0 ? MAX_FRESHNESS_MS : MEETING_MS))),
      undefined)
    },
    release: async (scope, tokens, job) => {
      if (rowsOf(tokens) === 0) return
      const lists = entriesOf(scope, tokens)
      await attempt(() => Promise.all(lists.map((list) =>
        commands.release(list, leaseOf(job)))), undefined)
    },
  }
}

/** As long as a job that knows only the other version may have parts under way. */
const MEETING_MS = 86_400_000

const isVerdict = (record: CachedRecord | undefined): record is CachedRecord =>
  record !== undefined && record.status !== 'unknown'

/** A contact's entries under each version of its token; its job's own version first. */
type Lists = readonly [Entries, ...Entries[]]

/** What the first version has no record of is looked for under the next. */
async function findAll (
  commands: CacheCommands, [own, ...others]: Lists
): Promise<readonly (CachedRecord | undefined)[]> {
  const read = createReader()
  const found = (await commands.find(own)).map(read)
  for (const list of others) {
    const rows = [...found.keys()].filter((row) => found[row] === undefined)
    if (rows.length === 0) break
    const texts = await commands.find(pick(list, rows))
    for (const [index, row] of rows.entries()) found[row] = read(texts[index] ?? null)
  }
  return found
}

/** Records that may not be used are claimed once more, unless they were replaced meanwhile. */
async function claimAll (commands: CacheCommands, lists: Lists, claim: Claim):
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
  const ask = (these: readonly Entries[], useless: readonly string[]) =>
    commands.claim(these, own, { leaseMs, useless })
  const texts = await ask(lists, [])
  const first = texts.map(readOne)
  const again = [...first.keys()].filter((row) => first[row] === 'useless')
  if (again.length === 0) return first as readonly Claimed[]
  const useless = [...new Set(again.map((row) => texts[row] ?? ''))]
  const theirs = await ask(lists.map((list) => pick(list, again)), useless)
  for (const [index, row] of again.entries()) {
    const second = readOne(theirs[index] ?? null)
    first[row] = second === 'useless' ? 'mine' : second
  }
  return first as readonly Claimed[]
}

function entriesOf ({ others, ...scope }: CacheScope, tokens: Buffer): Lists {
  const named = ({ tenant, service, version }: CacheScope, list: Buffer) =>
    ({ start: `c:{${tenant}}:${service}:${version}:`, tokens: list })
  const more = byVersion(others).map(({ version, tokens: list }) =>
    named({ ...scope, version }, list))
  return [named(scope, tokens), ...more]
}

function rowsOf (tokens: Buffer): number {
  return tokens.length / TOKEN_BYTES
}

/** Those of some contacts, in ascending order. */
function pick ({ start, tokens }: Entries, rows: readonly number[]): Entries {
  return { start, tokens: pickTokens(tokens, rows) }
}
