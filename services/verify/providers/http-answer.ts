import { parse } from 'csv-parse'
import { pipeline, Readable } from 'node:stream'
import { isDeepStrictEqual } from 'node:util'
import { type Entry, fromBufferPromise, type ZipFile } from 'yauzl'
import { isArchive } from '../../../schemas/files/csv-format.ts'
import { readWorkbook } from '../../../schemas/files/workbook.ts'
import { listColumns } from '../../jobs/results/columns.ts'
import { eventLoop } from '../../runtime/platform/limits.ts'
import type { ServiceSlug } from '../../topology.ts'
import {
  type ProviderRequest, NO_ANSWER, type ProviderAnswer, type ProviderFailure, type ProviderVerdict,
  UNCLEAR,
} from '../provider.ts'
import { type HttpVendor, VENDOR_COLUMNS, listVendorWords } from './http-vendor.ts'

/** A row of a call; the vendor receives and repeats `reference` instead of the row number. */
type RequestedRow = {
  readonly row: number
  readonly canonical: string
  readonly reference: number
}

export type Requested = Pick<ProviderRequest, 'service' | 'options'> & {
  readonly requested: readonly RequestedRow[]
}

/** Entries of a response beyond two for each row. */
const SPARE_ENTRIES = 100

/** The maximum number of entries in the response to a call with so many rows. */
export const maxEntries = (rows: number): number => 2 * rows + SPARE_ENTRIES

/** Entries that are read between two yields to the event loop. */
const SLICE_ENTRIES = 250

/**
 * The verdicts in a vendor's response; none if it has far more entries than rows. An answer is
 * matched to a row by reference or contact, never by position; if it has both, both must match the
 * same row. Answers without a row are ignored. A row with two different answers is unclear. Results
 * contain no free text of the vendor.
 */
export async function readAnswers (
  vendor: HttpVendor, body: unknown, { requested, service, options }: Requested
): Promise<readonly ProviderAnswer[]> {
  const { rows } = vendor.response
  const list = rows === undefined ? [body] : at(body, rows)
  const entries: readonly (readonly [key: string, value: unknown])[] = Array.isArray(list)
    ? list.map((row: unknown) => ['', row])
    : typeof list === 'object' && list !== null ? Object.entries(list) : []
  if (entries.length > maxEntries(requested.length)) return []
  const find = createFinder(vendor, requested)
  const read = verdictReader(vendor, { service, options })
  const verdicts = new Map<number, ProviderVerdict>()
  for (const [index, [key, entry]] of entries.entries()) {
    if (index % SLICE_ENTRIES === SLICE_ENTRIES - 1) await eventLoop.yield('bulk')
    const row = find(key, entry)
    if (row === undefined) continue
    const verdict = read(entry)
    const earlier = verdicts.get(row)
    const same = earlier === undefined || isDeepStrictEqual(earlier, verdict)
    verdicts.set(row, same ? verdict : UNCLEAR)
  }
  return [...verdicts].map(([row, verdict]) => ({ row, verdict }))
}

function createFinder ({ response: { match } }: HttpVendor, requested: readonly RequestedRow[]) {
  if (match === undefined) return () => requested[0]?.row
  const byReference = new Map(requested.map(({ row, reference }) => [String(reference), row]))
  const byContact = new Map(requested.map(({ row, canonical }) => [contactKey(canonical), row]))
  return (key: string, entry: unknown): number | undefined => {
    const references = [...textsAt(match.row, entry), ...match.key === 'row' ? [key] : []]
    const contacts = [...textsAt(match.contact, entry), ...match.key === 'contact' ? [key] : []]
    const rows = [
      ...references.map((text) => byReference.get(text ?? '')),
      ...contacts.map((text) => byContact.get(contactKey(text ?? ''))),
    ]
    return rows.every((row) => row === rows[0]) ? rows[0] : undefined
  }
}

const textsAt = (pointer: string | undefined, entry: unknown) =>
  pointer === undefined ? [] : [toText(at(entry, pointer))]

/** Vendors format numbers with spaces, and with or without a plus sign or two zeros. */
function contactKey (contact: string): string {
  const text = contact.trim().toLowerCase()
  return text.includes('@') ? text : text.replace(/\D/g, '').replace(/^00/, '')
}

function verdictReader (vendor: HttpVendor, terms: Omit<Requested, 'requested'>) {
  const { verdict, reason = [] } = vendor.response
  const reasons = Array.isArray(reason) ? reason : [reason]
  const readFields = fieldsReader(vendor, terms)
  // A vendor may name the field of a verdict after what was checked.
  const pointer = verdict.pointer.replaceAll('{service}', terms.service)
  return (entry: unknown): ProviderVerdict => {
    const text = toText(at(entry, pointer))
    if (text === undefined) return NO_ANSWER
    const outcome = wordFor(verdict.values, text)
    if (outcome === undefined) return UNCLEAR
    const words = reasons.map(({ values, pointer: where }) =>
      wordFor(values, toText(at(entry, where))))
    const why = words.find((word) => word !== undefined) ?? outcome.reason
    if (outcome.status === 'unknown') return { ...UNCLEAR, reason: why }
    const fields = readFields(entry)
    const { status, confidence = DEFAULT_CONFIDENCE } = outcome
    return { status, reason: why, confidence, fields }
  }
}

/** The confidence of a vendor that does not state one, 0 to 100. */
const DEFAULT_CONFIDENCE = 90

function fieldsReader (
  vendor: HttpVendor, { service, options }: Omit<Requested, 'requested'>
) {
  const columns = listColumns(service, { options })
  const words = listVendorWords(vendor)
  const described = Object.entries(vendor.response.fields ?? {})
    .filter(([column]) => columns.includes(column))
  return (entry: unknown): Record<string, string> => {
    const columns = described.flatMap(([column, { pointer, values }]) => {
      const text = toText(at(entry, pointer))
      const word = values === undefined ? text : wordFor(values, text)
      const value = word === undefined ? undefined : VENDOR_COLUMNS[column]?.(word, words)
      return value === undefined ? [] : [[column, value] as const]
    })
    return Object.fromEntries(columns)
  }
}

/**
 * The failure that the error field of a response has. With `ok` false (no success status) only the
 * errors that the description names count; otherwise the status decides.
 */
export function failureIn (vendor: HttpVendor, body: unknown, ok: boolean):
ProviderFailure | undefined {
  const field = vendor.errors?.field
  const text = field === undefined ? undefined : toText(at(body, field.pointer))
  if (field === undefined || text === undefined || field.fine?.includes(text)) return undefined
  const named = wordFor(field.values, text)
  return named ?? (ok ? field.otherwise ?? 'bad_response' : undefined)
}

/** The value that a map of a description has for a text of the vendor. */
export function wordFor<T> (
  words: Readonly<Record<string, T>> | undefined, text: string | undefined
): T | undefined {
  return words !== undefined && text !== undefined && Object.hasOwn(words, text)
    ? words[text]
    : undefined
}

/** Scalars as text, like the keys of maps; undefined for null, lists and objects. */
export function toText (value: unknown): string | undefined {
  return ['string', 'number', 'boolean'].includes(typeof value) ? String(value) : undefined
}

/** The value at a JSON pointer (RFC 6901), undefined if there is none. */
export function at (value: unknown, pointer: string): unknown {
  let here = value
  for (const token of pointer.split('/').slice(1)) {
    const name = unescapeToken(token)
    if (typeof here !== 'object' || here === null || !Object.hasOwn(here, name)) return undefined
    here = (here as Readonly<Record<string, unknown>>)[name]
  }
  return here
}

const unescapeToken = (token: string) => token.replaceAll('~1', '/').replaceAll('~0', '~')

/** The columns of a table that the description of a vendor points at. */
export function tableColumns (
  { response: { match, verdict, reason = [], fields = {} } }: HttpVendor, service: ServiceSlug
): ReadonlySet<string> {
  const pointers = [
    match?.row, match?.contact, verdict.pointer.replaceAll('{service}', service),
    ...[reason].flat().map(({ pointer }) => pointer),
    ...Object.values(fields).map(({ pointer }) => pointer),
  ]
  return new Set(pointers.flatMap((pointer) => {
    const [, token] = pointer?.split('/') ?? []
    return token === undefined ? [] : [unescapeToken(token)]
  }))
}

/** What a table is read for; everything else in it is skipped, and bounded. */
export type TableQuery = {
  /** The names of the columns to read. */
  readonly columns: ReadonlySet<string>
  /** Of data: a table with more rows, or CSV with more blank lines, is refused. */
  readonly maxRows: number
  readonly signal: AbortSignal
}

type Row = Readonly<Record<string, string>>

/** All files of an archive together, uncompressed. */
const MAX_INFLATED_BYTES = 16 * 1_024 * 1_024
const MAX_INFLATED_BYTES_PER_ROW = 16_384
/** Inflated bytes per byte of an archive. Spreadsheets of vendors have some 20. */
const MAX_RATIO = 100
/** What an archive may inflate to whatever its rows and its size. */
const FREE_BYTES = 131_072
const MAX_FILES = 256
/** Of a line of CSV, and of a row of a sheet, which has its columns at their place. */
const MAX_COLUMNS = 1_024
const MAX_LINE_BYTES = 262_144
/** One slice of work takes a few milliseconds at most. */
const SLICE_BYTES = 16_384

/** The table is damaged, or exceeds a limit. The message has no text of the vendor. */
class TableError extends Error {
  override readonly name = 'TableError'
}

/**
 * Reads the rows of a table under the names of its first line: CSV, a workbook (the first visible
 * sheet), or an archive (ZIP) with one of them. A row has all columns of the query that the table
 * has. Undefined if it is none of these, damaged, or exceeds a limit. The cost follows the bytes: a
 * parser gets them in slices, between which other work runs, and stops at the first violation.
 * Rejects with the reason of `signal`.
 */
export async function readTable (
  bytes: Buffer, query: TableQuery
): Promise<readonly Row[] | undefined> {
  const rows = new TableRows(query)
  try {
    if (isArchive(bytes)) {
      await readArchive(bytes, { rows, query, budget: new InflatedBytes(bytes, query), level: 0 })
    } else await readCsv(sliceBytes(bytes), rows, query)
    return rows.finish()
  } catch {
    query.signal.throwIfAborted()
    return undefined
  }
}

/** The rows so far; the first one names the columns. */
class TableRows {
  readonly #columns: ReadonlySet<string>
  readonly #maxRows: number
  readonly #rows: Row[] = []
  #lines = 0
  /** The columns to read, by their index. */
  #names: Map<number, string> | undefined

  constructor ({ columns, maxRows }: TableQuery) {
    this.#columns = columns
    this.#maxRows = maxRows
  }

  /** Counts lines before their rows are added, blank ones too. */
  countLines (more: number): void {
    this.#lines += more
    if (this.#lines > this.#maxRows + 1) throw new TableError('too many lines')
  }

  /** Adds a row; cells may be missing anywhere. */
  add (cells: readonly (string | undefined)[]): void {
    if (this.#names === undefined) this.#names = this.#readNames(cells)
    else {
      const row = Object.create(null) as Record<string, string>
      for (const [column, name] of this.#names) row[name] = (cells[column] ?? '').trim()
      this.#rows.push(row)
    }
  }

  finish (): readonly Row[] {
    if (this.#names === undefined) throw new TableError('no line')
    return this.#rows
  }

  /** Of two columns with a name, the last one counts. */
  #readNames (cells: readonly (string | undefined)[]): Map<number, string> {
    const byName = new Map<string, number>()
    cells.forEach((text, column) => {
      const name = text?.trim() ?? ''
      if (this.#columns.has(name)) byName.set(name, column)
    })
    return new Map([...byName].map(([name, column]) => [column, name]))
  }
}

/** The bytes that the files of one answer may still inflate to. */
class InflatedBytes {
  #left: number

  constructor ({ length }: Buffer, { maxRows }: TableQuery) {
    this.#left = Math.min(MAX_INFLATED_BYTES, FREE_BYTES + MAX_INFLATED_BYTES_PER_ROW * maxRows,
      FREE_BYTES + MAX_RATIO * length)
  }

  get left (): number { return this.#left }

  take (bytes: number): void {
    this.#left -= bytes
    if (this.#left < 0) throw new TableError('too large when inflated')
  }
}

async function * sliceBytes (bytes: Buffer): AsyncGenerator<Buffer> {
  for (let from = 0; from < bytes.length; from += SLICE_BYTES) {
    yield bytes.subarray(from, from + SLICE_BYTES)
  }
}

const COMMA = 0x2c
const LINE_FEED = 0x0a
const CARRIAGE_RETURN = 0x0d

/** Checks the lines of CSV before the parser gets them: their number, length and columns. */
async function * checkLines (
  slices: AsyncIterable<Buffer>, rows: TableRows, signal: AbortSignal
): AsyncGenerator<Buffer> {
  let commas = 0
  let bytes = 0
  let before = 0
  for await (const slice of slices) {
    await eventLoop.yield('bulk')
    signal.throwIfAborted()
    let lines = 0
    for (const byte of slice) {
      bytes += 1
      if (byte === COMMA) commas += 1
      const isEnd = byte === CARRIAGE_RETURN || (byte === LINE_FEED && before !== CARRIAGE_RETURN)
      before = byte
      if (commas >= MAX_COLUMNS) throw new TableError('too many columns')
      if (bytes > MAX_LINE_BYTES) throw new TableError('a line is too long')
      if (!isEnd) continue
      lines += 1
      commas = 0
      bytes = 0
    }
    rows.countLines(lines)
    yield slice
  }
}

/** Line breaks within quotes count as lines too, of which a table of verdicts has none. */
async function readCsv (
  slices: AsyncIterable<Buffer>, rows: TableRows, { signal }: TableQuery
): Promise<void> {
  const parser = parse({ bom: true, skip_empty_lines: true, relax_column_count: true })
  const ignore = () => {}
  // An error of the source is thrown by the loop.
  pipeline(Readable.from(checkLines(slices, rows, signal)), parser, ignore)
  for await (const line of parser as AsyncIterable<readonly string[]>) {
    rows.add(line)
  }
}

type Reading = {
  readonly rows: TableRows
  readonly query: TableQuery
  readonly budget: InflatedBytes
  /** 1 within an archive. */
  readonly level: 0 | 1
}

async function readArchive (bytes: Buffer, reading: Reading): Promise<void> {
  const zip = await fromBufferPromise(bytes, { lazyEntries: true, autoClose: false })
  if (zip.entryCount > MAX_FILES) throw new TableError('too many files')
  const files = new Map<string, Entry>()
  for await (const entry of zip.eachEntry()) files.set(entry.fileName, entry)
  if (files.has('xl/workbook.xml')) return await readSheet(bytes, reading)
  const names = [...files.keys()]
  const name = names.find((path) => /\.(?:csv|txt|xlsx)$/i.test(path))
  const entry = files.get(name ?? '')
  if (name === undefined || entry === undefined) throw new TableError('no table')
  const slices = inflate(zip, entry, reading)
  const isSheet = name.toLowerCase().endsWith('.xlsx')
  if (!isSheet) return await readCsv(slices, reading.rows, reading.query)
  if (reading.level > 0) throw new TableError('an archive in an archive in an archive')
  const pieces: Buffer[] = []
  for await (const slice of slices) pieces.push(slice)
  await readArchive(Buffer.concat(pieces), { ...reading, level: 1 })
}

/** Reads the first visible sheet of a workbook. */
async function readSheet (
  bytes: Buffer, { rows, budget, query: { signal } }: Reading
): Promise<void> {
  await readWorkbook(bytes, {
    maxInflatedBytes: budget.left,
    pause: async () => {
      await eventLoop.yield('bulk')
      signal.throwIfAborted()
    },
  }, ({ cells }) => {
    if (cells.length > MAX_COLUMNS) throw new TableError('too many columns')
    rows.countLines(1)
    rows.add(cells)
  })
}

async function * inflate (
  zip: ZipFile, entry: Entry, { budget, query: { signal } }: Reading
): AsyncGenerator<Buffer> {
  if (entry.uncompressedSize > budget.left) throw new TableError('too large when inflated')
  for await (const chunk of await zip.openReadStreamPromise(entry)) {
    const bytes = chunk as Buffer
    budget.take(bytes.length)
    for await (const slice of sliceBytes(bytes)) {
      await eventLoop.yield('bulk')
      signal.throwIfAborted()
      yield slice
    }
  }
}
