import type { Redis } from 'ioredis'
import { readFileSync } from 'node:fs'
import { type Reason, REASONS, ROW_STATUSES, type RowStatus } from '../../schemas/api/verdicts.ts'
import type { Evidence } from './evidence.ts'
import {
  buildKeyPrefix, type OptionalRotatedTokens, pickTokens, TOKEN_BYTES, tokensByVersion,
  type TokenScope,
} from './tokens.ts'
import { listMasters, type RedisClient, script } from '../runtime/platform/redis.ts'
import type { Metrics } from '../runtime/platform/metrics.ts'
import { SERVICE_SLUGS } from '../topology.ts'

/**
 * A verdict as it is cached and sent on. `confidence` is an integer from 0 to 100. `fields` holds
 * only result columns that can't identify the contact and don't derive from its canonical form
 * (see `results/block.ts`); a column that does not apply is absent. The column `suggestion` holds
 * the suggested mail domain alone, because the full address would put the local part into the
 * cache. `evidence` is missing in records of releases that did not store it.
 */
export type CheckedRecord = {
  readonly status: RowStatus
  readonly reason: Reason
  readonly confidence: number
  readonly fields: Readonly<Record<string, string>>
  readonly checkedAtMs: number
  readonly evidence?: Evidence | undefined
}

/** A verdict in the cache of a tenant, with the job that paid for it. */
export type CachedRecord = CheckedRecord & { readonly job: string }

/** The maximum age of a record, whatever the policy of an organization: 90 days. */
const MAX_FRESHNESS_MS = 90 * 24 * 60 * 60 * 1_000

/**
 * When a record must be verified again, in Unix milliseconds, under a policy of `freshnessMs`; the
 * maximum of 90 days always applies.
 */
export function expiresAtMs (checkedAtMs: number, freshnessMs: number): number {
  return checkedAtMs + Math.min(freshnessMs, MAX_FRESHNESS_MS)
}

type FreshnessRule = {
  /** The time of the quote, the same for every row of a job. */
  readonly quotedAtMs: number
  readonly freshnessMs: number
}

/**
 * Whether a record can be used for a job quoted at `quotedAtMs`. One made after the quote can; at
 * the exact time of its expiry it cannot.
 */
export function isCurrent (record: { readonly checkedAtMs: number }, rule: FreshnessRule): boolean {
  return expiresAtMs(record.checkedAtMs, rule.freshnessMs) > rule.quotedAtMs
}

/** The scope of records. Entries of tokens of other versions, of the same contacts, count too. */
type CacheScope = TokenScope & { readonly rotated?: OptionalRotatedTokens }

/** The record of a contact, or who checks it: this job (`mine`) or another one (`leased`). */
type ClaimedRecord = CachedRecord | 'mine' | 'leased'

type CacheClaim = {
  /**
   * The job that would pay. A contact occurs once in a job, so the job recognizes its own leases.
   */
  readonly job: string
  /** After this time another job may check a contact that still has no record. */
  readonly leaseMs: number
  /** Whether a record can be used by the job; otherwise the contact is checked again. */
  readonly usable: (record: CachedRecord) => boolean
}

type Offer = Pick<CacheClaim, 'usable'> & {
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
    scope: TokenScope, tokens: Buffer, offer: Offer,
  ) => Promise<readonly (CachedRecord | 'leased')[]>
  /** Releases the leases of a job. A lease that has expired and belongs to another job is kept. */
  readonly release: (scope: CacheScope, tokens: Buffer, job: string) => Promise<void>
  /** Deletes the records of these contacts. @throws while the cache is unavailable. */
  readonly erase: (scope: CacheScope, tokens: Buffer) => Promise<void>
}

type RecordCacheOptions = {
  /** Gets the errors of the cache, for logs; the pipeline works without the cache. */
  readonly onFault?: (error: unknown) => void
  /** Counts looked-up rows. */
  readonly metrics?: Metrics
}

/** As long as a job that knows only the other version may have verification batches in progress. */
const OTHER_VERSION_TTL_MS = 3 * 86_400_000

/**
 * The caches of tenants in Redis: one entry per token, kept for 90 days. An entry is a record, or
 * the lease of a job that is checking the contact. The cache is never required: an outage or an
 * invalid entry is a miss, and a record that could not be stored is checked again. A lease saves
 * money and is not needed for correctness.
 *
 * During a rotation of the secret a contact has an entry for each version of its tokens, which
 * connects jobs that know only one of them: leases are stored for all versions, and a verdict for
 * the version of the job, and for three days for the others.
 */
export function redisRecordCache (
  redis: RedisClient, { onFault = () => {}, metrics }: RecordCacheOptions = {}
): RecordCache {
  const scripts = createScripts(redis)
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
      const nothing = new Array<undefined>(tokenCount(tokens)).fill(undefined)
      const records = nothing.length === 0
        ? nothing
        : await attempt(() => findRecords(scripts, toEntries(scope, tokens)), nothing)
      const hits = records.filter(record => record !== undefined).length
      const { service } = scope
      metrics?.count('cache_lookups_total', { service, outcome: 'found' }, hits)
      metrics?.count('cache_lookups_total', { service, outcome: 'missing' }, records.length - hits)
      return records
    },
    claim: async (scope, tokens, { job, leaseMs: ms, usable }) => {
      const rows = tokenCount(tokens)
      if (rows === 0) return []
      const leases = new Array<string>(rows).fill(leaseValue(job))
      const claimed = await attempt(() =>
        claimEntries(scripts, toEntries(scope, tokens), { values: leases, ms, usable }), [])
      return leases.map((_, row) => claimed[row] ?? 'mine')
    },
    store: async (scope, tokens, records) => {
      const rows = [...records.keys()].filter(row => isVerdict(records[row]))
      if (rows.length === 0) return
      const values = records.filter(isVerdict).map(createWriter())
      await attempt(() => Promise.all(toEntries(scope, tokens).map((entries, index) => {
        const ttlMs = index === 0 ? MAX_FRESHNESS_MS : OTHER_VERSION_TTL_MS
        return scripts.put(pickEntries(entries, rows), values, ttlMs)
      })), undefined)
    },
    offer: async (scope, tokens, { records, usable }) => {
      if (tokenCount(tokens) === 0) return []
      const entries = { keyPrefix: buildKeyPrefix(scope), tokens }
      const values = records.map(createWriter())
      const claimed = await attempt(() =>
        claimEntries(scripts, [entries], { values, ms: MAX_FRESHNESS_MS, usable }), [])
      return records.map((record, row) => claimed[row] ?? record)
    },
    release: async (scope, tokens, job) => {
      if (tokenCount(tokens) === 0) return
      await attempt(() => Promise.all(toEntries(scope, tokens).map(entries =>
        scripts.release(entries, leaseValue(job)))), undefined)
    },
    erase: async (scope, tokens) => {
      if (tokenCount(tokens) === 0) return
      for (const entries of toEntries(scope, tokens)) await scripts.erase(entries)
    },
  }
}

const isVerdict = (record: CachedRecord | undefined): record is CachedRecord =>
  record !== undefined && record.status !== 'unknown'

/** Cache entries: the name of each is `keyPrefix` and the 16 bytes of its token. */
type Entries = { readonly keyPrefix: string, readonly tokens: Buffer }

/** The entries of contacts for each version of their tokens; the version of the job first. */
function toEntries (
  { rotated, ...scope }: CacheScope, tokens: Buffer
): readonly [Entries, ...Entries[]] {
  const more = tokensByVersion(rotated).map(({ version, tokens: list }) =>
    ({ keyPrefix: buildKeyPrefix({ ...scope, version }), tokens: list }))
  return [{ keyPrefix: buildKeyPrefix(scope), tokens }, ...more]
}

/** The entries at some positions, in ascending order. */
function pickEntries ({ keyPrefix, tokens }: Entries, rows: readonly number[]): Entries {
  return { keyPrefix, tokens: pickTokens(tokens, rows) }
}

function tokenCount (tokens: Buffer): number {
  return tokens.length / TOKEN_BYTES
}

/** Looks up misses of the first version in the next one. */
async function findRecords (
  scripts: CacheScripts, [entries, ...others]: readonly [Entries, ...Entries[]]
): Promise<readonly (CachedRecord | undefined)[]> {
  const read = createReader()
  const records = (await scripts.find(entries)).map(read)
  for (const list of others) {
    const rows = [...records.keys()].filter(row => records[row] === undefined)
    if (rows.length === 0) break
    const texts = await scripts.find(pickEntries(list, rows))
    for (const [index, row] of rows.entries()) records[row] = read(texts[index] ?? null)
  }
  return records
}

type ClaimOptions = {
  /** What to store for each contact. */
  readonly values: readonly string[]
  readonly ms: number
  readonly usable: (record: CachedRecord) => boolean
}

/**
 * Claims contacts for the first caller: returns the values of others, or undefined where its
 * own value is stored now. Records that cannot be used are claimed a second time and overwritten,
 * unless they were replaced in between.
 */
async function claimEntries (
  scripts: CacheScripts, lists: readonly Entries[], { values, ms, usable }: ClaimOptions
): Promise<readonly (CachedRecord | 'leased' | undefined)[]> {
  const read = createReader()
  const readEntry = (text: string | null | undefined, row: number) => {
    if (typeof text !== 'string' || text === values[row]) return undefined
    if (text.startsWith(LEASE)) return 'leased'
    const record = read(text)
    return record !== undefined && usable(record) ? record : 'stale'
  }
  const texts = await scripts.claim(lists, values, { ms, stale: [] })
  const claimed = texts.map(readEntry)
  const again = [...claimed.keys()].filter(row => claimed[row] === 'stale')
  if (again.length > 0) {
    const stale = [...new Set(again.map(row => texts[row] ?? ''))]
    const valuesAgain = again.map(row => values[row] ?? '')
    const second =
      await scripts.claim(lists.map(list => pickEntries(list, again)), valuesAgain, { ms, stale })
    for (const [index, row] of again.entries()) claimed[row] = readEntry(second[index], row)
  }
  return claimed.map(entry => entry === 'stale' ? undefined : entry)
}

type CacheScripts = ReturnType<typeof createScripts>

/**
 * The scripts, one call per list of entries, because commands per row would cost more than checks.
 * They get the prefix of the entry names and one buffer of tokens: naming a thousand entries one by
 * one would cost more than reading them. All entries of one call have the same hash tag (of tenant
 * and service), so they are on one node of a cluster, except while it moves their slot: then they
 * are misses.
 */
function createScripts (redis: RedisClient) {
  const named = (name: string, numberOfKeys: number | 'any') => {
    const source = ['common', name].map(file =>
      readFileSync(new URL(`./${file}.lua`, import.meta.url), 'utf8')).join('\n')
    return script(redis, { name, source, numberOfKeys, binary: true })
  }
  const find = named('find', 1)
  const claim = named('claim', 'any')
  const put = named('put', 1)
  const release = named('release', 1)
  const erase = named('erase', 1)
  return {
    find: async ({ keyPrefix, tokens }: Entries) =>
      unpackStrings(await find([keyPrefix], [tokens])),
    /**
     * Returns the value of the entry of each contact; null if it was set to the one in `values`,
     * for `ms` milliseconds. `stale` texts are overwritten. There is one list per version of the
     * tokens, with the same contacts: a record or lease in any of them counts.
     */
    claim: async (
      lists: readonly Entries[], values: readonly string[],
      { ms, stale }: { readonly ms: number, readonly stale: readonly string[] }
    ) => {
      const { numbers, texts } = packStrings(values)
      const rest = [texts.length, ...texts, ...lists.map(({ tokens }) => tokens), ...stale]
      return unpackStrings(
        await claim(lists.map(({ keyPrefix }) => keyPrefix), [ms, numbers, ...rest]))
    },
    /** Sets one value per entry, for `ms` milliseconds. */
    put: async ({ keyPrefix, tokens }: Entries, values: readonly string[], ms: number) => {
      const { numbers, texts } = packStrings(values)
      await put([keyPrefix], [ms, numbers, tokens, ...texts])
    },
    /** Deletes the leases that still belong to the owner. */
    release: async ({ keyPrefix, tokens }: Entries, lease: string) => {
      await release([keyPrefix], [tokens, lease])
    },
    /** Deletes the records; leases stay. */
    erase: async ({ keyPrefix, tokens }: Entries) => {
      await erase([keyPrefix], [tokens, LEASE])
    },
  }
}

/** The beginning of every lease; no record starts like this. */
const LEASE = 'lease '

/** The value of an entry while a job checks its contact. */
function leaseValue (job: string): string {
  return LEASE + job
}

/**
 * Serializes records as JSON arrays, because field names would be half of their size. A record
 * object that is shared by many contacts is serialized once.
 */
function createWriter (): (record: CachedRecord) => string {
  const texts = new Map<CachedRecord, string>()
  return (record) => {
    const written = texts.get(record)
    if (written !== undefined) return written
    const { checkedAtMs, job, evidence } = record
    // The evidence is last, where releases before it ignore it.
    const last = evidence === undefined ? '' : `,${evidence}`
    const text = `[${writeVerdict(record)},${checkedAtMs},${JSON.stringify(job)}${last}]`
    texts.set(record, text)
    return text
  }
}

type WrittenVerdict = Pick<CachedRecord, 'status' | 'reason' | 'confidence'> & { text: string }

/** By `fields`, one object for all contacts of a number range in all jobs. */
const verdicts = new WeakMap<CachedRecord['fields'], WrittenVerdict>()

function writeVerdict ({ status, reason, confidence, fields }: CachedRecord): string {
  const written = verdicts.get(fields)
  const isAlike = written?.status === status && written.reason === reason &&
    written.confidence === confidence
  if (isAlike) return written.text
  const text = JSON.stringify([status, reason, confidence, fields]).slice(1, -1)
  verdicts.set(fields, { status, reason, confidence, text })
  return text
}

/**
 * Parses entries; undefined for a missing entry, a lease, or an invalid value. Equal values give
 * the same record object, which is parsed once.
 */
function createReader (): (text: string | null) => CachedRecord | undefined {
  const records = new Map<string, CachedRecord | undefined>()
  return (text) => {
    if (text === null) return undefined
    const earlier = records.get(text)
    if (earlier !== undefined || records.has(text)) return earlier
    const record = text.startsWith(LEASE) ? undefined : readRecord(text)
    records.set(text, record)
    return record
  }
}

function readRecord (text: string): CachedRecord | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return Array.isArray(value) ? parseRecord(value) : undefined
  } catch {
    return undefined
  }
}

function parseRecord (values: readonly unknown[]): CachedRecord | undefined {
  const [status, reason, confidence, fields, checkedAtMs, job, evidence] = values
  const isRecord = status !== 'unknown' && isOneOf(ROW_STATUSES, status) &&
    isOneOf(REASONS, reason) &&
    typeof confidence === 'number' && typeof fields === 'object' && fields !== null &&
    typeof checkedAtMs === 'number' && typeof job === 'string'
  if (!isRecord) return undefined
  const isKnown = Number.isSafeInteger(evidence) && Number(evidence) >= 0
  return {
    status, reason, confidence, fields, evidence: isKnown ? evidence : undefined, checkedAtMs, job,
  } as CachedRecord
}

function isOneOf (list: readonly string[], value: unknown): boolean {
  return typeof value === 'string' && list.includes(value)
}

/**
 * Each distinct string once, and for each row its number in two bytes, from 1, as the scripts
 * expect it.
 */
function packStrings (rows: readonly string[]) {
  const numberByText = new Map<string, number>()
  const numbers = Buffer.allocUnsafe(rows.length * 2)
  for (let row = 0; row < rows.length; row++) {
    const text = rows[row] ?? ''
    const number = numberByText.get(text) ?? numberByText.size + 1
    if (number > numberByText.size) numberByText.set(text, number)
    numbers[row * 2] = number >> 8
    numbers[row * 2 + 1] = number & 0xff
  }
  return { numbers, texts: [...numberByText.keys()] }
}

/** Decodes the reply of a script: the string of each row, or null. Equal rows share one string. */
function unpackStrings (reply: unknown): readonly (string | null)[] {
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
  const prefixes = SERVICE_SLUGS.map(service => buildKeyPrefix({ tenant, service, version: '' }))
  for (const master of await listMasters(cache)) {
    for (const prefix of new Set(prefixes.map(name => name.slice(0, name.indexOf('}') + 1)))) {
      const scan = master.scanBufferStream({ match: `${prefix}*`, count: NAMES_PER_SCAN })
      for await (const names of scan as AsyncIterable<readonly Buffer[]>) {
        if (names.length > 0) yield { master, names }
      }
    }
  }
}
