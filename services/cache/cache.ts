import type { ServiceSlug } from '../topology.ts'
import { pick, rowsOf, takeAll, type CacheCommands, type Entries } from './commands.ts'
import { createReader, createWriter, leaseOf, type CachedRecord } from './entries.ts'
import { startOf } from './names.ts'
import { MAX_FRESHNESS_MS } from './freshness.ts'
import { byVersion, type MaybeRotated } from './rotated-tokens.ts'

export type { CacheCommands, Entries } from './commands.ts'
export type { CachedRecord } from './entries.ts'
export { pickRotated as pickOthers } from './rotated-tokens.ts'
export { pickTokens, tokenAt, TOKEN_BYTES, tokensOf } from './tokens.ts'

/** Whose records: a tenant's, of one service, under tokens of one version of the secret. */
export type CacheScope = {
  readonly tenant: string
  readonly service: ServiceSlug
  readonly version: string
  /** The same contacts' tokens by other versions: what stands under them counts as well. */
  readonly others?: MaybeRotated
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

export type Offer = Pick<Claim, 'usable'> & {
  /** A verdict a token; none is `unknown`. */
  readonly records: readonly CachedRecord[]
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
  /**
   * Keeps a verdict for each contact that has no usable record, and gives what stands: the record
   * of another that came first, or one's own. `held` where another has the contact under check. For
   * checks that cost nothing, which need no lease beforehand; of one version of the tokens.
   */
  readonly offer: (
    scope: Omit<CacheScope, 'others'>, tokens: Buffer, offer: Offer,
  ) => Promise<readonly (CachedRecord | 'held')[]>
  /** Lets others check; a lease that ended meanwhile and is another's now is left alone. */
  readonly release: (scope: CacheScope, tokens: Buffer, job: string) => Promise<void>
}

/** `onFault` is told of a cache that cannot be used, for logs; the pipeline goes on without it. */
export type RecordCacheOptions = { readonly onFault?: (error: unknown) => void }

/**
 * The tenants' caches: an entry for each token (`startOf` names them), kept for 90 days. An entry
 * is a record, or the lease of a job that has the contact under check. A cache is never
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
    offer: async (scope, tokens, offer) => {
      if (rowsOf(tokens) === 0) return []
      const start = startOf(scope)
      return await attempt(() => offerAll(commands, { start, tokens }, offer), offer.records)
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

async function claimAll (commands: CacheCommands, lists: Lists, claim: Claim):
Promise<readonly Claimed[]> {
  const lease = leaseOf(claim.job)
  const own = new Array<string>(rowsOf(lists[0].tokens)).fill(lease)
  const held = await takeAll(commands, lists, { own, ms: claim.leaseMs, usable: claim.usable })
  return held.map((one) => one ?? 'mine')
}

async function offerAll (commands: CacheCommands, entries: Entries, { records, usable }: Offer):
Promise<readonly (CachedRecord | 'held')[]> {
  const own = records.map(createWriter())
  const held = await takeAll(commands, [entries], { own, ms: MAX_FRESHNESS_MS, usable })
  return records.map((record, row) => held[row] ?? record)
}

function entriesOf ({ others, ...scope }: CacheScope, tokens: Buffer): Lists {
  const more = byVersion(others).map(({ version, tokens: list }) =>
    ({ start: startOf({ ...scope, version }), tokens: list }))
  return [{ start: startOf(scope), tokens }, ...more]
}
