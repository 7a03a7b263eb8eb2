import { hash, randomUUID } from 'node:crypto'
import type { Journal } from '../../schemas/types.ts'
import { createMac, type MessageKeySettings, type RecordMac } from '../runtime/crypto/mac.ts'
import {
  bytes, dateTime, number, signedTable, type SignedRow, text,
} from '../runtime/crypto/signed-table.ts'
import { splitBatches } from '../runtime/platform/batch-writes.ts'
import type { Clickhouse } from '../runtime/platform/clickhouse.ts'
import { type Amounts, areEqual, post, subtract, ZERO_AMOUNTS } from './prices.ts'

/** Sequence numbers, both ends inclusive. */
export type Range = readonly [first: number, last: number]

/**
 * The head of a tenant's hash chain: the number of its last entry, the hex SHA-256 over all its
 * entries, and the numbers below that are missing, in ascending order.
 */
export type ChainHead = {
  readonly seq: number
  readonly hash: string
  readonly missing: readonly Range[]
}

/** The head of an empty journal. */
export const CHAIN_START: ChainHead = { seq: 0, hash: '0'.repeat(64), missing: [] }

/**
 * The text of an entry that is signed and chained: a JSON array of a version and all fields in a
 * fixed order, so that no two entries share a text. The sealed header is included as its SHA-256.
 */
export function canonicalText (entry: Journal): string {
  return JSON.stringify([
    1, entry.tenant, entry.seq, entry.entryId, entry.type, entry.job,
    entry.amountMicros, entry.chargeMicros,
    entry.availableMicros, entry.reservedMicros, entry.chargedMicros, entry.fundedMicros,
    entry.at, entry.reason,
    entry.header === null || entry.header.length === 0 ? '' : hash('sha256', entry.header),
  ])
}

/** The hash of the entry with this canonical text, after an entry with the hash `prev`. */
export function hashAfter (prev: string, text: string): string {
  return hash('sha256', `${prev}\n${text}`)
}

/** The head after one more entry. Entries come in ascending order; a repeated number is skipped. */
export function extendChain (head: ChainHead, entry: Journal): ChainHead {
  return extendByText(head, entry.seq, () => canonicalText(entry))
}

/** The same for any chain of numbered texts. */
export function extendByText (head: ChainHead, seq: number, text: () => string): ChainHead {
  if (seq <= head.seq) return head
  const gap: Range = [head.seq + 1, seq - 1]
  return {
    seq,
    hash: hashAfter(head.hash, text()),
    missing: gap[0] > gap[1] ? head.missing : [...head.missing, gap],
  }
}

/** How the id of an entry begins that was derived from the next one, with its number. */
export const RECONSTRUCTED = 'missing:'

type Movement = Pick<Journal, 'type' | 'amountMicros' | 'chargeMicros'>

/** Identifies the movement of an entry, under whatever number: a job is reserved and ended once. */
export function movementId ({ entryId, type, job }: Journal): string {
  return job === '' || type === 'reserve' ? entryId : endId(job)
}

const endId = (job: string) => `${job}:end`

function movesLess (one: Movement, other: Movement): boolean {
  const [a, b] = [one.amountMicros, other.amountMicros]
  return (one.chargeMicros - other.chargeMicros || Math.abs(a) - Math.abs(b) || a - b) < 0
}

/**
 * The movements of a journal in which different entries may have one number, as an isolated Redis
 * master and its successor wrote them. Each movement counts once, by its id, under however many
 * numbers it stands. The sum is the same in any order: of two movements with one id, the one that
 * charges or moves less counts, and a reconstructed one counts nothing once another entry of its
 * number moves as much.
 */
export class Movements {
  sum: Amounts = ZERO_AMOUNTS
  readonly #counted = new Map<string, Movement>()
  /** What entries of no job moved, as the ids that they would have if they were reconstructed. */
  readonly #moved = new Set<string>()

  /** Counts the movement of an entry; false if one with its id counts already. */
  add (entry: Journal): boolean {
    const { seq, entryId, type, job, amountMicros, chargeMicros } = entry
    const movement = { type, amountMicros, chargeMicros }
    if (entryId.startsWith(RECONSTRUCTED)) {
      const isFound = this.#moved.has(`${entryId} ${amountMicros}`)
      return this.#count(entryId, isFound ? { ...movement, amountMicros: 0 } : movement)
    }
    if (job === '') {
      const lost = `${RECONSTRUCTED}${seq}`
      this.#moved.add(`${lost} ${amountMicros}`)
      if (this.amountOf(lost) === amountMicros) this.#count(lost, { ...movement, amountMicros: 0 })
    }
    return this.#count(movementId(entry), movement)
  }

  #count (id: string, movement: Movement): boolean {
    const counted = this.#counted.get(id)
    if (counted !== undefined && !movesLess(movement, counted)) return false
    if (counted !== undefined) this.sum = subtract(this.sum, post(ZERO_AMOUNTS, counted))
    this.#counted.set(id, movement)
    this.sum = post(this.sum, movement)
    return counted === undefined
  }

  has (entry: Journal): boolean {
    return this.#counted.has(movementId(entry))
  }

  /** Those of the entries that count: one of each movement. */
  chooseCounted (entries: readonly Journal[]): readonly Journal[] {
    const byId = new Map<string, Journal>()
    for (const entry of entries) {
      const id = movementId(entry)
      const counted = this.#counted.get(id)
      if (counted === undefined || movesLess(counted, entry)) continue
      if (!byId.has(id)) byId.set(id, entry)
    }
    return [...byId.values()]
  }

  /** The amount of the variant that counts. */
  amountOf (id: string): number | undefined {
    return this.#counted.get(id)?.amountMicros
  }

  hasEnd (job: string): boolean {
    return this.#counted.has(endId(job))
  }

  /**
   * Whether everything that contradicts up to an entry with these balances is resolved: they are
   * the sum of all movements up to it, and not only of those that one side knew.
   */
  areIn (balances: Amounts): boolean {
    return areEqual(this.sum, balances)
  }
}

/** How the id of an entry begins that states the balances of a journal that operators trust. */
const TRUSTED = 'trusted:'

/**
 * The entry after `last` that moves nothing and states these balances, for a journal that operators
 * trust and whose last entry does not state them.
 */
export function trustedEntry (
  { tenant, seq, at }: Pick<Journal, 'tenant' | 'seq' | 'at'>, balances: Amounts
): Journal {
  return {
    ...balances,
    tenant,
    seq: seq + 1,
    entryId: `${TRUSTED}${seq + 1}`,
    type: 'adjust',
    job: '',
    amountMicros: 0,
    chargeMicros: 0,
    at,
    reason: 'operators trusted the journal: the balances are the sum of its movements',
    header: null,
  }
}

/** Whether operators have trusted the journal up to this entry, whatever it contradicts. */
export function isTrusted ({ entryId }: Journal): boolean {
  return entryId.startsWith(TRUSTED)
}

/** Up to which number contradictions are resolved, and how many numbers had several entries. */
export type Resolution = { readonly upTo: number, readonly numbers: number }

/**
 * Finds which contradictions of a journal are resolved. Entries come by number, those of one number
 * in any order. A repeated movement contradicts as well. Numbers with one entry alone, whose
 * balances do not follow, are resolved by `trustedEntry` only, and otherwise remain wrong.
 */
export function trackContradictions () {
  const movements = new Movements()
  let resolution: Resolution = { upTo: 0, numbers: 0 }
  let [unresolved, isContradicted] = [0, false]
  let ofNumber: Journal[] = []
  const conclude = () => {
    const isTwice = ofNumber.length > 1
    if (isTwice) unresolved += 1
    isContradicted ||= isTwice || ofNumber.some(isTrusted)
    const [first] = ofNumber
    if (!isContradicted || !ofNumber.every(entry => movements.areIn(entry))) return
    isContradicted = false
    resolution = { upTo: first?.seq ?? 0, numbers: resolution.numbers + unresolved }
    unresolved = 0
  }
  return {
    add: (entry: Journal): void => {
      if (entry.seq !== ofNumber[0]?.seq) {
        conclude()
        ofNumber = []
      }
      ofNumber.push(entry)
      isContradicted ||= movements.has(entry)
      movements.add(entry)
    },
    end: (): Resolution => {
      conclude()
      return resolution
    },
  }
}

/** The heads of all tenants' chains at one time, as they are exported from the system. */
export type JournalHeads = {
  /** Unix ms. */
  readonly at: number
  /** The head of the access log is one of them, under its own name. */
  readonly tenants: readonly (ChainHead & { readonly tenant: string })[]
}

export type HeadsCodec = ReturnType<typeof createHeadsCodec>

/**
 * Encodes heads as one line of signed JSON, and decodes authentic lines only. `purpose` is part of
 * the MAC: an exported head is not accepted as a head that an audit has proven.
 * @throws TypeError when the active key is not among the keys.
 */
export function createHeadsCodec (
  settings: MessageKeySettings, purpose: 'journal head' | 'proven journal head' = 'journal head'
) {
  const { sign, isAuthentic } = createMac(settings)
  return {
    encode: ({ at, tenants }: JournalHeads): string => {
      const mac = sign(purpose, toContent({ at, tenants }))
      return JSON.stringify({ version: 1, at, tenants, mac })
    },

    /** Undefined for a text without a valid MAC. */
    decode: (text: string): JournalHeads | undefined => {
      const document = parse(text)
      if (document?.version !== 1 || !Array.isArray(document.tenants)) return undefined
      return isAuthentic(String(document.mac), purpose, toContent(document)) ? document : undefined
    },
  }
}

type Document = JournalHeads & { readonly version: unknown, readonly mac: unknown }

/** Independent of the order of fields, as a receiver may store the document as parsed JSON. */
function toContent ({ at, tenants }: JournalHeads): readonly string[] {
  return [JSON.stringify([1, at, tenants.map(head =>
    [head?.tenant, head?.seq, head?.hash, head?.missing])])]
}

function parse (text: string): Document | null | undefined {
  try {
    return JSON.parse(text) as Document | null
  } catch {
    return undefined
  }
}

/** The stored entries of a tenant. */
type StoredJournal = {
  /** In order of seq, each entry once, however often it is stored. */
  readonly entries: readonly Journal[]
  /** The seqs of rows without a valid MAC. */
  readonly forged: readonly number[]
}

/**
 * The audit copy of the money journal in ClickHouse: a set of signed entries, inserted in any
 * order. Every read leaves out rows without a valid MAC.
 */
export type JournalCopy = {
  /**
   * Stores the entries that are not stored yet, each once, and returns them. A row that was changed
   * is none of an entry, and one that an earlier message key signed is.
   */
  readonly append: (entries: readonly Journal[]) => Promise<readonly Journal[]>
  readonly read: (tenant: string) => Promise<StoredJournal>
  /**
   * Reads in pages, from a seq or from a time (Unix ms) on. All entries of one seq are on the same
   * page.
   */
  readonly pages: (
    tenant: string, from: { readonly seq: number, readonly atMs: number }
  ) => AsyncIterable<StoredJournal>
  /**
   * The last `limit` entries of a tenant, or those before a seq or of a type, newest first, without
   * those that state what operators trust. Of a movement with several entries, the one that counts
   * comes, with its last seq. Those of one seq come together, so there may be more than `limit`.
   */
  readonly readNewest: (tenant: string, options: NewestOptions) => Promise<readonly Journal[]>
  /** Extends the heads by all entries stored after them; a tenant without entries has none. */
  readonly heads: (from: ReadonlyMap<string, ChainHead>) => Promise<ReadonlyMap<string, ChainHead>>
  /**
   * Counts, for each tenant, the seqs from 1 to the given one that have a row. Forged rows count as
   * well, so a count that is too small proves a loss; `audit` verifies each row.
   */
  readonly counts: (last: ReadonlyMap<string, number>) => Promise<ReadonlyMap<string, number>>
  /**
   * The highest seq of each tenant, forged rows included. A seq that is too small means that rows
   * were deleted or are not copied yet.
   */
  readonly lengths: () => Promise<ReadonlyMap<string, number>>
}

/** The first `limit` entries of a list by seq, and the others of the last seq among them. */
export function cutPage<Entry extends { readonly seq: number }> (
  entries: readonly Entry[], limit: number
): readonly Entry[] {
  const last = entries[limit - 1]?.seq
  return entries.filter(({ seq }, index) => index < limit || seq === last)
}

type NewestOptions = {
  readonly limit: number
  readonly before?: number | undefined
  readonly type?: string | undefined
}

/** Tenants and seqs are part of the URL of the query, whose length is limited. */
const ENTRIES_PER_QUERY = 100
const SEQS_PER_QUERY = 500

const ROWS_PER_PAGE = 2_000
/** Growth of a page that the rows of one seq have filled. */
const PAGE_GROWTH = 16

/** Stores many entries per insert; an entry that is stored twice is read once. */
export function createJournalCopy (clickhouse: Clickhouse, mac: RecordMac): JournalCopy {
  const append = async (entries: readonly Journal[]) => {
    const byText = new Map(entries.map(entry => [canonicalText(entry), entry]))
    for (const some of splitBatches([...byText.values()], ENTRIES_PER_QUERY)) {
      const byTenant = Map.groupBy(some, ({ tenant }) => tenant)
      const rows = clickhouse.stream<StoredEntry>(SELECT_STORED, {
        tenants: [...byTenant.keys()],
        seqs: [...new Set(some.map(({ seq }) => seq))],
        named: new Map([...byTenant].map(([tenant, named]) =>
          [tenant, named.map(({ seq }) => seq)])),
      })
      const { entries: stored } = await TABLE.read(rows, mac)
      for (const entry of stored) byText.delete(canonicalText(entry))
    }
    const missing = [...byText.values()]
    if (missing.length === 0) return []
    const values = missing.map(entry => TABLE.toRow(entry, mac))
    // Of another insert of the same rows ClickHouse would drop the later one, though somebody may
    // have deleted them in between. An entry that is stored twice is read once.
    await clickhouse.insert({ table: 'journal', values, token: randomUUID() })
    return missing
  }
  const read = (tenant: string) =>
    verified(clickhouse.stream<StoredEntry>(SELECT_ALL, { tenant }), mac)
  const pages: JournalCopy['pages'] = async function * (tenant, from) {
    const stored = pagesFrom(clickhouse, tenant, from)
    for await (const rows of stored) yield await verified(rows, mac)
  }
  const heads: JournalCopy['heads'] = async from => {
    const ends = new Map([...from].filter(([, { seq }]) => seq > 0))
    if (from.size === 0) return ends
    const after = new Map([...from].map(([tenant, { seq }]) => [tenant, seq]))
    const tenants = [...from.keys()]
    const rows = clickhouse.stream<StoredEntry>(SELECT_AFTER, { tenants, after })
    for await (const row of rows) {
      const entry = TABLE.toEntry(row)
      if (!TABLE.isSigned(row, entry, mac)) continue
      ends.set(row.tenant, extendChain(ends.get(row.tenant) ?? CHAIN_START, entry))
    }
    return ends
  }
  return {
    append,
    read,
    pages,
    readNewest: createNewestReader(clickhouse, mac),
    heads,
    counts: last => readNumbers(clickhouse, SELECT_COUNTS, { tenants: [...last.keys()], last }),
    lengths: () => readNumbers(clickhouse, SELECT_LENGTHS, {}),
  }
}

async function verified (
  rows: AsyncIterable<StoredEntry> | readonly StoredEntry[], mac: RecordMac
): Promise<StoredJournal> {
  const { entries, forged } = await TABLE.read(rows, mac)
  return { entries, forged: forged.map(({ seq }) => seq) }
}

function createNewestReader (
  clickhouse: Clickhouse, mac: RecordMac
): JournalCopy['readNewest'] {
  const hasLater = async (entry: Journal) => {
    const { tenant, seq, entryId, job } = entry
    const later = await clickhouse.rows<StoredEntry>(SELECT_LATER, { tenant, seq, entryId, job })
    const { entries } = await TABLE.read(later, mac)
    return entries.some(other =>
      movementId(other) === movementId(entry) && !movesLess(entry, other))
  }
  const choose = async (
    ofSeq: readonly Journal[], movements: Movements
  ): Promise<readonly Journal[]> => {
    const counted = movements.chooseCounted(ofSeq)
    if (ofSeq.length < 2) return counted
    const chosen: Journal[] = []
    for (const entry of counted) if (!await hasLater(entry)) chosen.push(entry)
    return chosen
  }
  return async (
    tenant, { limit, before = Number.MAX_SAFE_INTEGER, type = '' }
  ) => {
    const entries: Journal[] = []
    for (let [from, count] = [String(before), limit]; ; count = SEQS_PER_QUERY) {
      const seqs = await readSeqs(
        clickhouse, SELECT_SEQS_BEFORE, { tenant, before: from, type, limit: count })
      // A movement with two numbers has the first beside another entry, as one side of a
      // contradiction did it there and the other one did something else.
      const several = await readSeqs(clickhouse, SELECT_SEVERAL, {
        tenant, first: seqs.at(-1) ?? '0', last: seqs[0] ?? '0', limit: SEQS_PER_QUERY,
      })
      // A filter by type would hide the other entries of a seq, and a subquery over all shards may
      // be forbidden.
      const rows = await clickhouse.rows<StoredEntry>(
        SELECT_SEQS, { tenant, seqs: [...new Set([...seqs, ...several])] })
      const { entries: stored } = await TABLE.read(rows, mac)
      const movements = new Movements()
      for (const entry of stored) movements.add(entry)
      const bySeq = Map.groupBy(stored.filter(entry => !isTrusted(entry)), ({ seq }) => seq)
      for (const seq of seqs) {
        const chosen = await choose(bySeq.get(Number(seq)) ?? [], movements)
        entries.push(...chosen.filter(entry => type === '' || entry.type === type))
        if (entries.length >= limit) return entries
      }
      if (seqs.length < count) return entries
      from = seqs.at(-1) ?? from
    }
  }
}

async function readSeqs (
  clickhouse: Clickhouse, query: string, parameters: Record<string, unknown>
): Promise<readonly string[]> {
  const rows = await clickhouse.rows<Pick<StoredEntry, 'seq'>>(query, parameters)
  return rows.map(({ seq }) => seq)
}

/** One query per page, as the caller may take hours between two pages. */
async function * pagesFrom (
  clickhouse: Clickhouse, tenant: string, from: { readonly seq: number, readonly atMs: number }
): AsyncGenerator<readonly StoredEntry[]> {
  type First = { readonly first: string }
  const [found] = await clickhouse.rows<First>(SELECT_FIRST, { tenant, ...from })
  let seq = found?.first ?? '0'
  for (let limit = ROWS_PER_PAGE; ;) {
    const rows = await clickhouse.rows<StoredEntry>(SELECT_PAGE, { tenant, seq, limit })
    const isLast = rows.length < limit
    const last = rows.at(-1)?.seq ?? seq
    // The rows of the last seq may continue on the next page.
    const complete = isLast ? rows : rows.filter(row => row.seq !== last)
    if (complete.length > 0) yield complete
    if (isLast) return
    limit = complete.length > 0 ? ROWS_PER_PAGE : limit * PAGE_GROWTH
    seq = last
  }
}

async function readNumbers (
  clickhouse: Clickhouse, query: string, parameters: Record<string, unknown>
): Promise<ReadonlyMap<string, number>> {
  const rows = await clickhouse.rows<{ readonly tenant: string, readonly entries: string }>(
    query, parameters)
  return new Map(rows.map(({ tenant, entries }) => [tenant, Number(entries)]))
}

const HEADER = bytes('header')

const TABLE = signedTable<Journal>({
  tenant: text('tenant'),
  seq: number('seq'),
  entryId: text('entry_id'),
  type: text('type'),
  job: text('job'),
  amountMicros: number('amount_micros'),
  chargeMicros: number('charge_micros'),
  availableMicros: number('available_micros'),
  reservedMicros: number('reserved_micros'),
  chargedMicros: number('charged_micros'),
  fundedMicros: number('funded_micros'),
  at: dateTime('at'),
  reason: text('reason'),
  header: {
    ...HEADER,
    toStored: header => HEADER.toStored(header ?? Buffer.alloc(0)),
    parse: stored => stored === '' ? null : HEADER.parse(stored),
  },
}, entry => ({
  table: 'journal', tenant: entry.tenant, id: String(entry.seq), content: canonicalText(entry),
}))

const SELECT = `SELECT ${TABLE.selected} FROM journal`
const SELECT_STORED = `
  ${SELECT} WHERE tenant IN {tenants:Array(String)} AND seq IN {seqs:Array(UInt64)}
    AND has({named:Map(String, Array(UInt64))}[tenant], seq)`
const SELECT_ALL = `${SELECT} WHERE tenant = {tenant:String} ORDER BY seq, mac`
const SELECT_FIRST = `
  SELECT toString(min(seq)) AS first FROM journal
  WHERE tenant = {tenant:String}
    AND (seq >= {seq:UInt64} OR at >= fromUnixTimestamp64Milli({atMs:Int64}))`
const SELECT_PAGE = `
  ${SELECT} WHERE tenant = {tenant:String} AND seq >= {seq:UInt64}
  ORDER BY seq, mac LIMIT {limit:UInt64}`
const SELECT_SEQS_BEFORE = `
  SELECT DISTINCT seq FROM journal WHERE tenant = {tenant:String} AND seq < {before:UInt64}
    AND ({type:String} = '' OR type = {type:String}) ORDER BY seq DESC LIMIT {limit:UInt64}`
/** Those with several entries, from 10,000 numbers before the page on, as two sides soon meet. */
const SELECT_SEVERAL = `
  SELECT seq FROM journal WHERE tenant = {tenant:String} AND seq <= {last:UInt64}
    AND seq + 10000 >= {first:UInt64}
  GROUP BY seq HAVING uniqExact(mac) > 1 ORDER BY seq DESC LIMIT {limit:UInt64}`
const SELECT_SEQS = `
  ${SELECT} WHERE tenant = {tenant:String} AND seq IN {seqs:Array(UInt64)}
  ORDER BY seq DESC, mac`
const SELECT_LATER = `
  ${SELECT} WHERE tenant = {tenant:String} AND seq > {seq:UInt64}
    AND (entry_id = {entryId:String} OR ({job:String} != '' AND job = {job:String}))`
const SELECT_AFTER = `
  ${SELECT} WHERE tenant IN {tenants:Array(String)} AND seq > {after:Map(String, UInt64)}[tenant]
  ORDER BY tenant, seq, mac`
const SELECT_COUNTS = `
  SELECT tenant, uniqExact(seq) AS entries FROM journal
  WHERE tenant IN {tenants:Array(String)} AND seq BETWEEN 1 AND {last:Map(String, UInt64)}[tenant]
  GROUP BY tenant`
const SELECT_LENGTHS = 'SELECT tenant, max(seq) AS entries FROM journal GROUP BY tenant'

type StoredEntry = SignedRow & Readonly<Record<'tenant' | 'seq', string>>
