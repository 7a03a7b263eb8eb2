import type { ListAction } from '../../../schemas/api/contact-lists.ts'
import type { Reason, RowStatus } from '../../../schemas/api/verdicts.ts'
import type { Completed, CompletedRows } from '../../../schemas/types.ts'
import { type CheckedRecord, expiresAtMs } from '../../cache/cache.ts'
import type { Evidence } from '../../cache/evidence.ts'
import type { TallyBlock } from '../job.ts'
import { INPUT_COLUMNS, listRowFields, SERVICE_DEFINITIONS } from './columns.ts'
import { blockDigest } from './result-blocks.ts'
import { findMailProvider, normalizedMailbox, unmaskExchange } from '../../mail/owners.ts'
import { formatPhone } from '../../phone/plans.ts'
import type { Emission } from '../../runtime/engine/stage.ts'
import { emptyBitmap, indexes, set } from '../../runtime/platform/bitmap.ts'
import type { Lane, ServiceSlug } from '../../topology.ts'

/** The outcome of an original, or of a row that failed preflight. */
export type RowOutcome = {
  readonly status: RowStatus
  readonly reason: Reason
  /** Where the verdict comes from; `none` for a row that ended without one. */
  readonly source: 'live' | 'cache' | 'preflight' | 'none'
  /** Whole number from 0 to 100. */
  readonly confidence: number
  /** Undefined for a record without it, and for a row whose contact is unknown. */
  readonly evidence?: Evidence | undefined
  readonly checkedAtMs: number
  readonly expiresAtMs: number
  /** The fields of the record, by result column; one object for all rows of a record. */
  readonly fields: Readonly<Record<string, string>>
  /** The columns derived from the contact; they override `fields`. */
  readonly contact: Readonly<Record<string, string>>
  /** Rows of the job that repeat this one. */
  readonly copies: number
}

/** The contact a result is about. */
export type CheckedContact = {
  readonly service: ServiceSlug
  readonly canonical: string
  readonly copies: number
}

/**
 * The outcome of a contact with this record. Derives the columns of the canonical form again, as
 * the cache must not identify contacts. A record without a verdict expires at once and has no
 * source.
 */
export function toRowOutcome (
  record: CheckedRecord, subject: CheckedContact, { source, freshnessMs }: RecordTerms
): RowOutcome {
  const { status, reason, confidence, evidence, checkedAtMs } = record
  return {
    status,
    reason,
    source: status === 'unknown' ? 'none' : source,
    confidence,
    evidence,
    checkedAtMs,
    expiresAtMs: status === 'unknown' ? checkedAtMs : expiresAtMs(checkedAtMs, freshnessMs),
    fields: record.fields,
    contact: deriveContact(subject, record.fields),
    copies: subject.copies,
  }
}

type RecordTerms = {
  readonly source: 'live' | 'cache'
  readonly freshnessMs: number
}

/** The outcome of a contact that the organization's lists decide at `atMs`, without a check. */
export function listedOutcome (
  action: ListAction, subject: CheckedContact,
  { atMs, freshnessMs }: { readonly atMs: number, readonly freshnessMs: number }
): RowOutcome {
  const isAllowed = action === 'allow'
  const outcome = toRowOutcome({
    status: isAllowed ? 'valid' : 'invalid',
    reason: REASONS_OF_LISTS[action],
    confidence: 100,
    fields: NO_FIELDS,
    evidence: NO_CHECKS,
    checkedAtMs: atMs,
  }, subject, { source: 'cache', freshnessMs })
  return isAllowed ? outcome : { ...outcome, source: 'preflight', expiresAtMs: atMs }
}

const REASONS_OF_LISTS = {
  allow: 'allow_listed', block: 'block_listed', suppress: 'suppressed',
} as const satisfies Readonly<Record<ListAction, Reason>>

/**
 * The outcome of a row without a verdict, decided at `atMs`: not charged, and counted as failed
 * with its duplicates. Without a subject the contact of the row is unknown.
 */
export function withoutVerdict (
  reason: Reason, { atMs, subject }: { readonly atMs: number, readonly subject?: CheckedContact }
): RowOutcome {
  return {
    status: 'unknown',
    reason,
    source: 'none',
    confidence: 0,
    evidence: subject === undefined ? undefined : NO_CHECKS,
    checkedAtMs: atMs,
    expiresAtMs: atMs,
    fields: NO_FIELDS,
    contact: subject === undefined ? {} : deriveContact(subject, NO_FIELDS),
    copies: subject?.copies ?? 0,
  }
}

/** Only the syntax was checked. */
const NO_CHECKS: Evidence = 0

/** The fields of all rows without a record. */
export const NO_FIELDS: CheckedRecord['fields'] = {}

/** The columns of a canonical form, which override the fields of the record. */
function deriveContact ({ service, canonical }: CheckedContact, fields: Fields): Fields {
  return SERVICE_DEFINITIONS[service].kind === 'phone'
    ? derivePhone(canonical)
    : deriveEmail(canonical, fields)
}

type Fields = Readonly<Record<string, string>>

/**
 * Derives the result columns of an E.164 number, which are never cached.
 * `country` is blank when the number's range belongs to no single country (an unassigned range of
 * a shared calling code, or a global service such as +800).
 * @throws Error when `e164` is not canonical, which is a bug of the caller.
 */
function derivePhone (e164: string): Fields {
  const written = formatPhone(e164)
  if (written === undefined) throw new Error('derivePhone needs a canonical E.164 number')
  return {
    phone: written.international,
    e164,
    country: written.country ?? '',
    national_format: written.national,
  }
}

/**
 * Derives the result columns of a canonical e-mail address, whose mail exchange may be known by the
 * masked name that is cached. Turns a suggested mail domain into a full address, as only the domain
 * is cached.
 */
function deriveEmail (
  canonical: string, { mx_record: masked = '', suggestion = '' }: Fields
): Fields {
  const at = canonical.lastIndexOf('@')
  const domain = canonical.slice(at + 1)
  const exchange = unmaskExchange(masked, domain)
  return {
    email: canonical,
    domain,
    normalized: normalizedMailbox(canonical, exchange),
    ...exchange !== '' && { mx_record: exchange, mail_provider: findMailProvider(exchange) },
    ...suggestion !== '' && { suggestion: `${canonical.slice(0, at)}@${suggestion}` },
  }
}

/**
 * The outcome of a duplicate row, which has no result of its own. `duplicateOf` counts from 1;
 * `email` is its own spelling of the address.
 */
export type DuplicateOutcome = {
  readonly source: 'duplicate'
  readonly duplicateOf: number
  readonly email?: string
}

export type BlockOptions = {
  readonly coordinates: ChunkCoordinates
  /**
   * Binds the seal: of a verification batch its block number (`numberBlock` in verify/batch.ts),
   * else one of `NO_BATCH`.
   */
  readonly batch: number
  /** All inputs of the chunk, for the block that stores them. */
  readonly inputs?: readonly string[]
  /** What the sender of a feed or a file gave with these rows. */
  readonly contacts?: CompletedRows['contacts']
}

type Block = {
  /** Adds a finished row (index within the chunk); in ascending order, each once. */
  readonly add: (row: number, outcome: RowOutcome | DuplicateOutcome) => void
  readonly emission: (lane: Lane) => Emission<'rows.completed'>
}

/**
 * Batch numbers of blocks without a verification batch: those of `lookup`, and those that end rows
 * in place of blocks that may exist (dead letters, failed jobs). The tally rejects the latter while
 * blocks of the job are recounted: until then rows that have a verdict may only seem open.
 */
export const NO_BATCH = { lookup: -1, substitute: -2 } as const

/**
 * Collects finished rows of one chunk and derives everything that is tallied, so that the bitmaps
 * are consistent by construction: an original is in exactly one of them by its source, one without
 * a verdict as cancelled or unknown; a duplicate is in none. Live rows are charged. Columns are
 * stored by name, without row, input, duplicate_of and those of INPUT_COLUMNS; a column that is
 * blank in every row is left out.
 * Throws RangeError when a row is outside the chunk, repeated or out of order.
 */
export function createBlock ({ coordinates, batch, inputs, contacts }: BlockOptions): Block {
  const bitmaps = Object.fromEntries(
    BITMAPS.map(name => [name, emptyBitmap(coordinates.rows)])) as Bitmaps
  const verdicts = createVerdictRows(coordinates.rows)
  const cells = createDictionaryColumns(
    listRowFields(coordinates.service).filter((name) => !NOT_STORED.has(name)))
  const shareCells = createSharedCells()
  const rows: number[] = []
  const duplicateOf: number[] = []
  const duplicates: { row: number, count: number }[] = []

  const add = (row: number, outcome: RowOutcome | DuplicateOutcome) => {
    const first = (rows.at(-1) ?? -1) + 1
    if (row < first || row >= coordinates.rows) {
      throw new RangeError(`the next row is ${row}, expected ${first} to ${coordinates.rows - 1}`)
    }
    set(bitmaps.finished, row)
    rows.push(row)
    duplicateOf.push(outcome.source === 'duplicate' ? outcome.duplicateOf : 0)
    if (outcome.source !== 'duplicate' && outcome.copies > 0) {
      duplicates.push({ row, count: outcome.copies })
    }
    if (outcome.source === 'duplicate') {
      cells.addRow(DUPLICATE)
      if (outcome.email !== undefined) cells.put('email', outcome.email)
    } else {
      set(bitmaps[chooseBitmap(outcome)], row)
      verdicts.add(row, outcome)
      cells.addRow(shareCells(outcome))
      for (const name in outcome.contact) cells.put(name, outcome.contact[name] ?? '')
    }
  }

  const emission = (lane: Lane): Emission<'rows.completed'> => ({
    topic: 'rows.completed',
    lane,
    value: {
      ...coordinates,
      batch,
      inputs: inputs !== undefined,
      ...bitmaps,
      duplicates,
      verdicts: verdicts.packed(),
    },
    rows: {
      inputs: inputs ?? null,
      contacts,
      rows,
      duplicateOf: duplicateOf.some((original) => original > 0) ? duplicateOf : [],
      columns: cells.filled(),
    },
  })
  return { add, emission }
}

/**
 * A block for rows of an unprocessable message, known by its headers only: all of them `unknown`,
 * reason `internal`, not charged. With `inputs` it replaces the input block of the chunk, without
 * which the job would not end; its inputs are blank. `atMs` is the time of the job, so that a
 * replay stores the same rows again.
 */
export function unresolvableBlock (
  { coordinates, lane, bitmap }: MessageRows,
  options: { readonly atMs: number, readonly inputs: boolean }
): Emission<'rows.completed'> {
  const inputs = options.inputs ? { inputs: new Array<string>(coordinates.rows).fill('') } : {}
  const block = createBlock({ coordinates, batch: NO_BATCH.substitute, ...inputs })
  for (const row of indexes(bitmap)) {
    if (row < coordinates.rows) block.add(row, withoutVerdict('internal', { atMs: options.atMs }))
  }
  return block.emission(lane)
}

const BITMAPS = ['finished', 'cached', 'live', 'invalid', 'unknown', 'cancelled'] as const

type Bitmaps = Pick<Completed, typeof BITMAPS[number]>

/** Collects the originals of a chunk by status and reason; they come in ascending order. */
function createVerdictRows (rows: number) {
  const entries: (Pick<RowOutcome, 'status' | 'reason'> & {
    readonly bitmap: Buffer, readonly first: number, last: number
  })[] = []
  const add = (row: number, { status, reason }: RowOutcome): void => {
    let entry = entries.find(other => other.reason === reason && other.status === status)
    if (entry === undefined) {
      entry = { status, reason, bitmap: emptyBitmap(rows), first: row, last: row }
      entries.push(entry)
    }
    entry.last = row
    set(entry.bitmap, row)
  }
  /** Without the blank bytes at both ends: a verification batch is a small part of its chunk. */
  const packed = () => entries.map(({ status, reason, bitmap, first, last }) => ({
    status,
    reason,
    firstRow: first - first % 8,
    rows: bitmap.subarray(first >> 3, (last >> 3) + 1),
  }))
  return { add, packed }
}

function chooseBitmap ({ source, reason }: RowOutcome): Exclude<keyof Bitmaps, 'finished'> {
  switch (source) {
    case 'live': return 'live'
    case 'cache': return 'cached'
    case 'preflight': return 'invalid'
    case 'none': return reason === 'cancelled' ? 'cancelled' : 'unknown'
  }
}

/** Stored by row, or derived from what is. */
const NOT_STORED = new Set(['row', 'input', 'duplicate_of', ...Object.keys(INPUT_COLUMNS)])

const DUPLICATE: SharedCells = { source: 'duplicate' }

/**
 * Returns the cells of an outcome that do not derive from its contact: the same object for all rows
 * of one record with the same end.
 */
function createSharedCells (): (outcome: RowOutcome) => SharedCells {
  const cellsByFields =
    new Map<RowOutcome['fields'], { outcome: RowOutcome, cells: SharedCells }[]>()
  const times = { checked: createIsoTimes(), expires: createIsoTimes() }
  return (outcome) => {
    const { fields } = outcome
    const candidates = cellsByFields.get(fields) ?? []
    const same = candidates.find(candidate => haveSameEnd(candidate.outcome, outcome))
    if (same !== undefined) return same.cells
    const cells = {
      ...fields,
      // After the fields, which must not override the end of the row.
      source: outcome.source,
      status: outcome.status,
      confidence: String(outcome.confidence),
      reason: outcome.reason,
      checks: outcome.evidence === undefined ? '' : String(outcome.evidence),
      checked_at: times.checked(outcome.checkedAtMs),
      expires_at: times.expires(outcome.expiresAtMs),
    }
    cellsByFields.set(fields, [...candidates, { outcome, cells }])
    return cells
  }
}

function haveSameEnd (outcome: RowOutcome, other: RowOutcome): boolean {
  return outcome.source === other.source && outcome.status === other.status &&
    outcome.confidence === other.confidence && outcome.reason === other.reason &&
    outcome.evidence === other.evidence &&
    outcome.checkedAtMs === other.checkedAtMs && outcome.expiresAtMs === other.expiresAtMs
}

/** The fields of a block that the tally needs. */
export function toTallyBlock (block: Completed): TallyBlock {
  const { job, chunk, batch, inputs, firstRow, duplicates, verdicts } = block
  const replacesLost = batch === NO_BATCH.substitute
  const { finished, cached, live, invalid, unknown, cancelled } = block
  const digest = blockDigest(block)
  const bitmaps = { finished, cached, live, invalid, unknown, cancelled }
  return { job, chunk, digest, inputs, replacesLost, firstRow, duplicates, verdicts, ...bitmaps }
}

/** The job and the chunk of rows, and the position of the chunk within the job. */
export type ChunkCoordinates = Readonly<Pick<Completed,
  'tenant' | 'job' | 'service' | 'chunk' | 'chunks' | 'firstRow' | 'rows' | 'totalRows'>>

/** The coordinates in the value of a message with rows. */
export function toCoordinates (value: ChunkCoordinates): ChunkCoordinates {
  const { tenant, job, service, chunk, chunks, firstRow, rows, totalRows } = value
  return { tenant, job, service, chunk, chunks, firstRow, rows, totalRows }
}

/** The rows that a message is about. */
type MessageRows = {
  readonly coordinates: ChunkCoordinates
  readonly lane: Lane
  /** Which rows of the chunk they are. */
  readonly bitmap: Buffer
}

/**
 * The rows of a message by its Kafka headers, which are readable even if its value is not. Reads
 * the headers `tenant, job, service, lane, chunk, chunks, firstRow, chunkRows, totalRows,
 * rows` (base64 bitmap). Returns undefined when one is missing or not a whole number: this pipeline
 * did not produce such a message, so its rows are unknown.
 */
export function readMessageRows (
  headers: Readonly<Record<string, string>>
): MessageRows | undefined {
  const { tenant, job, service, lane, rows } = headers
  if (!tenant || !job || !service || !lane || !rows) return undefined
  const numbers = ['chunk', 'chunks', 'firstRow', 'chunkRows', 'totalRows']
    .map((name) => Number(headers[name] ?? Number.NaN))
  if (!numbers.every((number) => Number.isSafeInteger(number) && number >= 0)) return undefined
  const [chunk = 0, chunks = 0, firstRow = 0, chunkRows = 0, totalRows = 0] = numbers
  const place = { chunk, chunks, firstRow, rows: chunkRows, totalRows }
  const coordinates = { tenant, job, service: service as ServiceSlug, ...place }
  return { coordinates, lane: lane as Lane, bitmap: Buffer.from(rows, 'base64') }
}

/** A result column as blocks store it. */
export type StoredColumn = CompletedRows['columns'][number]

type SharedCells = Readonly<Record<string, string>>

type Stored = Omit<StoredColumn, 'name'>

/** A column with more distinct values is stored as one value per row. */
const MAX_DICTIONARY_VALUES = 64

/**
 * Builds columns row by row, as one object per row would cost more than the rest of a block. Cells
 * mostly repeat, so a column of few distinct values stores each once, and an index per row.
 */
function createDictionaryColumns (names: readonly string[]) {
  const columns = new Map(names.map((name) => [name, createColumn()]))
  const shared = createShared()
  let rows = 0
  return {
    /**
     * Begins a row with the cells that are not put, or put blank. Cheap if rows share the same
     * object, as only its number is stored per row.
     */
    addRow: (cells: SharedCells): void => {
      shared.add(cells)
      rows += 1
    },

    /** Sets a cell of the current row; ignores a name that is not a column. */
    put: (name: string, value: string): void => { columns.get(name)?.put(rows - 1, value) },

    /** The columns that are not blank in all rows, in the order of the names. */
    filled: (): readonly StoredColumn[] => [...columns].flatMap(([name, column]) => {
      const stored = overlay(column.stored(rows), shared.stored(name))
      return stored === undefined ? [] : [{ name, ...stored }]
    }),
  }
}

/** Overlays the cells put into a column on its shared cells. */
function overlay (own: Stored | undefined, shared: Stored | undefined): Stored | undefined {
  if (own === undefined || shared === undefined) return own ?? shared
  const values = expandCells(own)
  const column = createColumn()
  const cells = expandCells(shared).map((cell, row) => values[row] || cell)
  for (const [row, cell] of cells.entries()) column.put(row, cell)
  return column.stored(cells.length)
}

/** The values of a stored column, one per row. */
function expandCells ({ values, at }: Stored): readonly string[] {
  return at.length === 0 ? values : at.map((index) => values[index] ?? '')
}

/** Collects the shared cells of each row. */
function createShared () {
  const numbers = new Map<SharedCells, number>()
  const rows: number[] = []
  const add = (cells: SharedCells): void => {
    const number = numbers.get(cells) ?? numbers.size
    numbers.set(cells, number)
    rows.push(number)
  }
  /** The indexes of a column with a single value: one list for all such columns. */
  let zeros: readonly number[] = []
  const makeZeros = (length: number): readonly number[] => {
    if (zeros.length !== length) zeros = new Array<number>(length).fill(0)
    return zeros
  }
  const stored = (name: string): Stored | undefined => {
    const texts = [...numbers.keys()].map((cells) => cells[name] ?? '')
    const values = [...new Set(texts)]
    if (values.every((value) => value === '')) return undefined
    if (values.length > MAX_DICTIONARY_VALUES) {
      return { values: rows.map((number) => texts[number] ?? ''), at: [] }
    }
    if (values.length === 1) return { values, at: makeZeros(rows.length) }
    const indexOf = new Map(values.map((value, index) => [value, index]))
    const indexes = texts.map((text) => indexOf.get(text) ?? 0)
    return { values, at: rows.map((number) => indexes[number] ?? 0) }
  }
  return { add, stored }
}

/** Creates a column; rows come in ascending order, and skipped ones are blank. */
function createColumn () {
  let values: string[] = []
  let indexes: Map<string, number> | undefined = new Map()
  let at: number[] = []
  const indexOf = (value: string, positions: Map<string, number>): number => {
    const before = at.at(-1)
    if (before !== undefined && values[before] === value) return before
    const index = positions.get(value)
    if (index !== undefined) return index
    positions.set(value, values.length)
    return values.push(value) - 1
  }
  /** Adds blank cells for skipped rows. */
  const padTo = (row: number) => {
    if (indexes === undefined) while (values.length < row) values.push('')
    else if (at.length < row) {
      const blank = indexOf('', indexes)
      while (at.length < row) at.push(blank)
    }
  }
  const put = (row: number, value: string) => {
    if (value === '' && values.length === 0) return
    padTo(row)
    if (indexes === undefined) values[row] = value
    else at[row] = indexOf(value, indexes)
    if (indexes === undefined || values.length <= MAX_DICTIONARY_VALUES) return
    values = at.map((index) => values[index] ?? '')
    indexes = undefined
    at = []
  }
  const stored = (rows: number): Stored | undefined => {
    if (values.length === 0) return undefined
    padTo(rows)
    return { values, at }
  }
  return { put, stored }
}

/** Formats ISO 8601 in UTC with milliseconds; reuses the last text, as rows mostly share a time. */
function createIsoTimes (): (unixMs: number) => string {
  let lastMs = NaN
  let lastText = ''
  return (unixMs) => {
    if (unixMs !== lastMs) {
      lastText = new Date(unixMs).toISOString()
      lastMs = unixMs
    }
    return lastText
  }
}
