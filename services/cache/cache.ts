import { hash } from 'node:crypto'
import type { ServiceSlug } from '../topology.ts'
import {
  type CacheCommands, type CachedRecord, claimEntries, createReader, createWriter, type Entries,
  LEASE, leaseOf, MAX_FRESHNESS_MS, pickEntries, tokenCount,
} from './entries.ts'
import { type OptionalRotatedTokens, tokensByVersion } from './tokens.ts'

/** The scope of records: tenant, service, and the version of the secret of its tokens. */
export type CacheScope = {
  readonly tenant: string
  readonly service: ServiceSlug
  readonly version: string
  /** Tokens of the same contacts for other versions; their entries count too. */
  readonly rotated?: OptionalRotatedTokens
}

/** The record of a contact, or who checks it: this job (`mine`) or another one (`leased`). */
type ClaimedRecord = CachedRecord | 'mine' | 'leased'

export type CacheClaim = {
  /**
   * The job that would pay. A contact occurs once in a job, so the job recognizes its own leases.
   */
  readonly job: string
  /** After this time another job may check a contact that still has no record. */
  readonly leaseMs: number
  /** Whether a record can be used by the job; otherwise the contact is checked again. */
  readonly usable: (record: CachedRecord) => boolean
}

export type Offer = Pick<CacheClaim, 'usable'> & {
  /** One verdict per token; none is `unknown`. */
  readonly records: readonly CachedRecord[]
}

export type RecordCache = {
  /** One entry per token, in order; undefined for a miss. */
  readonly find: (scope: CacheScope, tokens: Buffer) =>
  Promise<readonly (CachedRecord | undefined)[]>
  /**
   * Like `find`, and leases all contacts without a usable record, so that no other job pays for the
   * same check.
   */
  readonly claim: (scope: CacheScope, tokens: Buffer, claim: CacheClaim) =>
  Promise<readonly ClaimedRecord[]>
  /**
   * Stores verdicts, one per token or undefined, in place of leases. An `unknown` is never stored.
   */
  readonly store: (
    scope: CacheScope, tokens: Buffer, records: readonly (CachedRecord | undefined)[],
  ) => Promise<void>
  /**
   * Stores a verdict for each contact without a usable record, and returns the stored one: its own,
   * or an earlier one. `leased` if another job is checking the contact. For free checks, which need
   * no lease before; for one version of the tokens.
   */
  readonly offer: (
    scope: Omit<CacheScope, 'rotated'>, tokens: Buffer, offer: Offer,
  ) => Promise<readonly (CachedRecord | 'leased')[]>
  /** Releases the leases of a job. A lease that has expired and belongs to another job is kept. */
  readonly release: (scope: CacheScope, tokens: Buffer, job: string) => Promise<void>
  /** Deletes the records of these contacts. @throws while the cache is unavailable. */
  readonly erase: (scope: CacheScope, tokens: Buffer) => Promise<void>
}

/** `onFault` gets the errors of the cache, for logs; the pipeline works without the cache. */
export type RecordCacheOptions = { readonly onFault?: (error: unknown) => void }

/**
 * The caches of tenants: one entry per token, kept for 90 days. An entry is a record, or the lease
 * of a job that is checking the contact. The cache is never required: an outage or an invalid entry
 * is a miss, and a record that could not be stored is checked again. A lease saves money and is not
 * needed for correctness.
 *
 * During a rotation of the secret a contact has an entry for each version of its tokens, which
 * connects jobs that know only one of them: leases are stored for all versions, and a verdict for
 * the version of the job, and for a day for the others.
 */
export function createRecordCache (
  commands: CacheCommands, { onFault = () => {} }: RecordCacheOptions = {}
): RecordCache {
  const attempt = async <T>(action: () => Promise<T>, fallback: T): Promise<T> => {
    try {
      return await action()
    } catch (error) {
      onFault(error)
      return fallback
    }
  }
  return {
    find: async (scope, tokens) => {
      const rows = tokenCount(tokens)
      if (rows === 0) return []
      const nothing = new Array<undefined>(rows).fill(undefined)
      return await attempt(() => findAll(commands, entriesOf(scope, tokens)), nothing)
    },
    claim: async (scope, tokens, claim) => {
      const rows = tokenCount(tokens)
      if (rows === 0) return []
      const fallback = new Array<'mine'>(rows).fill('mine')
      return await attempt(() => claimAll(commands, entriesOf(scope, tokens), claim), fallback)
    },
    store: async (scope, tokens, records) => {
      const rows = [...records.keys()].filter((row) => isVerdict(records[row]))
      if (rows.length === 0) return
      const values = records.filter(isVerdict).map(createWriter())
      const lists = entriesOf(scope, tokens)
      const ttlMs = (index: number) => index === 0 ? MAX_FRESHNESS_MS : OTHER_VERSION_TTL_MS
      await attempt(() => Promise.all(lists.map((list, index) =>
        commands.put(pickEntries(list, rows), values, ttlMs(index)))), undefined)
    },
    offer: async (scope, tokens, offer) => {
      if (tokenCount(tokens) === 0) return []
      const keyPrefix = keyPrefixOf(scope)
      return await attempt(() => offerAll(commands, { keyPrefix, tokens }, offer), offer.records)
    },
    release: async (scope, tokens, job) => {
      if (tokenCount(tokens) === 0) return
      const lists = entriesOf(scope, tokens)
      await attempt(() => Promise.all(lists.map((list) =>
        commands.release(list, leaseOf(job)))), undefined)
    },
    erase: async (scope, tokens) => {
      if (tokenCount(tokens) === 0) return
      for (const list of entriesOf(scope, tokens)) await commands.erase(list, LEASE)
    },
  }
}

/** As long as a job that knows only the other version may have verification batches in progress. */
const OTHER_VERSION_TTL_MS = 86_400_000

const isVerdict = (record: CachedRecord | undefined): record is CachedRecord =>
  record !== undefined && record.status !== 'unknown'

/** The entries of a contact for each version of its token; the version of the job first. */
type EntryLists = readonly [Entries, ...Entries[]]

/** Looks up misses of the first version in the next one. */
async function findAll (
  commands: CacheCommands, [own, ...others]: EntryLists
): Promise<readonly (CachedRecord | undefined)[]> {
  const read = createReader()
  const found = (await commands.find(own)).map(read)
  for (const list of others) {
    const rows = [...found.keys()].filter((row) => found[row] === undefined)
    if (rows.length === 0) break
    const texts = await commands.find(pickEntries(list, rows))
    for (const [index, row] of rows.entries()) found[row] = read(texts[index] ?? null)
  }
  return found
}

async function claimAll (commands: CacheCommands, lists: EntryLists, claim: CacheClaim):
Promise<readonly ClaimedRecord[]> {
  const lease = leaseOf(claim.job)
  const own = new Array<string>(tokenCount(lists[0].tokens)).fill(lease)
  const held = await claimEntries(commands, lists, { own, ms: claim.leaseMs, usable: claim.usable })
  return held.map((one) => one ?? 'mine')
}

async function offerAll (commands: CacheCommands, entries: Entries, { records, usable }: Offer):
Promise<readonly (CachedRecord | 'leased')[]> {
  const own = records.map(createWriter())
  const held = await claimEntries(commands, [entries], { own, ms: MAX_FRESHNESS_MS, usable })
  return records.map((record, row) => held[row] ?? record)
}

function entriesOf ({ rotated, ...scope }: CacheScope, tokens: Buffer): EntryLists {
  const more = tokensByVersion(rotated).map(({ version, tokens: list }) =>
    ({ keyPrefix: keyPrefixOf({ ...scope, version }), tokens: list }))
  return [{ keyPrefix: keyPrefixOf(scope), tokens }, ...more]
}

/** Services that make the same check of a contact, and so use each other's records. */
const SHARED: Readonly<Partial<Record<ServiceSlug, ServiceSlug>>> = {
  'carrier-single': 'carrier-lookup',
}

/** The service by whose name the records of a service are stored. */
export function recordsOf (service: ServiceSlug): ServiceSlug {
  return SHARED[service] ?? service
}

/** 36 bits: a collision of two scopes is unlikely and harmless, because their tokens differ. */
const TAG_CHARACTERS = 6

/**
 * The prefix of the entry names of a scope: `c:{<digest>}<version>:`. The name ends with the 16
 * bytes of a token, which is unique to one tenant, service and version. So the hash tag only has to
 * keep all entries of a command on one node of a cluster, for all versions of a contact. Names of
 * 28 bytes instead of 75 take a quarter of the time in Redis.
 */
export function keyPrefixOf (
  { tenant, service, version }:
  { readonly tenant: string, readonly service: ServiceSlug, readonly version: string }
): string {
  const digest = hash('sha256', JSON.stringify([tenant, recordsOf(service)]), 'base64url')
  return `c:{${digest.slice(0, TAG_CHARACTERS)}}${version}:`
}
