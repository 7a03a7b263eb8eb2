import { randomBytes } from 'node:crypto'
import { closeSync, createReadStream, createWriteStream } from 'node:fs'
import { basename, dirname } from 'node:path'
import { createInterface } from 'node:readline'
import { finished, pipeline } from 'node:stream/promises'
import { csvCell, findPositions, SAMPLE_BYTES } from '../../../schemas/files/csv-format.ts'
import type { FeedCells } from '../../../schemas/feeds/seal.ts'
import { readLines } from '../../client/client.ts'
import { decodeCell, detectDialect, readRecords } from '../../client/csv.ts'
import { type InputFile, openInput, OutputFolder } from '../../client/files.ts'
import { CommandError } from '../../client/terminal.ts'
import type { ContactResult, FeedConnection } from './connection.ts'

export type SendOptions = {
  readonly service: string
  /** The country of contacts without one of their own. */
  readonly countryCode: string
  readonly forceFresh: boolean
  /** Fails after this time without any result while results are missing. */
  readonly silenceMs: number
  /** The number of contacts whose price the user confirmed: a file with more is not sent on. */
  readonly confirmed?: number
  /** Sends the references of the file, for others who read the results, instead of its own. */
  readonly sendsReferences?: boolean
  readonly onProgress?: (progress: SendProgress) => void
}

export type SendProgress = {
  readonly sent: number
  readonly results: number
  /** The share of the file that was sent, from 0 to 1. */
  readonly fileRead: number
}

export type SendSummary = {
  readonly sent: number
  readonly results: number
  /** Ignored results: duplicates and results of other senders. */
  readonly repeated: number
  readonly byStatus: Readonly<Record<string, number>>
}

type SendDeps = {
  readonly feed: FeedConnection
  readonly source: ContactFile
  readonly output: ResultFile
}

/** Bounds memory, and the backlog of the service. */
const MAX_UNANSWERED = 300_000
const BATCH_CONTACTS = 2_000

/**
 * Streams the contacts of a file into the feed and writes one result for each. Rejects with
 * CommandError when results are missing after `silenceMs`. Whatever fails, the results so far are
 * written.
 */
export async function sendContacts (
  { feed, source, output }: SendDeps, options: SendOptions
): Promise<SendSummary> {
  const tally = new Tally(options)
  const byStatus: Record<string, number> = {}
  await feed.listen(result => {
    const reference = tally.answer(result)
    if (reference === undefined) return
    const status = textIn(result.cells, 'status')
    byStatus[status] = (byStatus[status] ?? 0) + 1
    output.write({ ...result, reference })
    report()
  }, error => { tally.fail(error) })
  const report = () => options.onProgress?.({ ...tally.counts, fileRead: source.read() })
  const { service, countryCode, forceFresh, confirmed } = options
  let hasMore = false
  const onMore = () => { hasMore = true }
  try {
    for await (const batch of batchContacts(source.contacts, { confirmed, onMore })) {
      await tally.untilMissing(MAX_UNANSWERED)
      await feed.send(batch.map(contact => ({
        reference: tally.expect(contact.reference),
        service,
        forceFresh,
        countryCode: contact.countryCode ?? countryCode,
        input: contact.input,
      })))
      report()
    }
    await feed.end()
    await tally.untilMissing(0)
  } catch (error) {
    // They were paid. Without any, the file of an earlier run stays.
    if (tally.counts.results > 0) await output.finish()
    throw error
  }
  await output.finish()
  if (hasMore) {
    throw new CommandError(`The file has more than the ${confirmed} contacts whose price you ` +
      'confirmed: it has changed since. The rest was not sent.')
  }
  return { ...tally.counts, repeated: tally.repeated, byStatus }
}

type Limit = { readonly confirmed: number | undefined, readonly onMore: () => void }

async function * batchContacts (
  contacts: AsyncIterable<FileContact>, { confirmed = Infinity, onMore }: Limit
): AsyncIterable<readonly FileContact[]> {
  let batch: FileContact[] = []
  let row = 0
  for await (const contact of contacts) {
    row++
    if (row > confirmed) {
      onMore()
      break
    }
    if (contact.reference === '') throw emptyReference(row)
    batch.push(contact)
    if (batch.length < BATCH_CONTACTS) continue
    yield batch
    batch = []
  }
  if (batch.length > 0) yield batch
}

type Wait = {
  readonly maxMissing: number
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
}

/**
 * Matches results to contacts. Each contact is sent with a reference that no other one has, in this
 * run or another: the references of a file may repeat, and results of an earlier run, or the same
 * result once more, may arrive at any time. References that are sent as they are may repeat too:
 * their results are only counted.
 */
class Tally {
  readonly #silenceMs: number
  readonly #sendsReferences: boolean
  readonly #run = randomBytes(4).toString('hex')
  /** Contacts without a result, and their reference in the file, or row, by that which was sent. */
  readonly #missing = new Map<string, { readonly reference: string, readonly contacts: number }>()
  #wait: Wait | undefined
  #sent = 0
  #results = 0
  #repeated = 0
  #failure: unknown

  /** A wait fails after `silenceMs` without a result. */
  constructor ({ silenceMs, sendsReferences = false }: SendOptions) {
    this.#silenceMs = silenceMs
    this.#sendsReferences = sendsReferences
  }

  get counts (): { readonly sent: number, readonly results: number } {
    return { sent: this.#sent, results: this.#results }
  }

  get repeated (): number {
    return this.#repeated
  }

  /** Registers the contact of the next row before it is sent; returns the reference to send. */
  expect (reference: string | undefined): string {
    const row = String(++this.#sent)
    const sent = this.#sendsReferences && reference !== undefined
      ? reference
      : `${this.#run}:${row}`
    const contacts = (this.#missing.get(sent)?.contacts ?? 0) + 1
    this.#missing.set(sent, { reference: reference ?? row, contacts })
    return sent
  }

  /**
   * The reference of the contact in its file, or its row; undefined for a duplicate result and for
   * one of another sender.
   */
  answer (result: ContactResult): string | undefined {
    const missing = this.#missing.get(result.reference)
    if (missing === undefined) {
      this.#repeated++
      return undefined
    }
    const { reference, contacts } = missing
    if (contacts === 1) this.#missing.delete(result.reference)
    else this.#missing.set(result.reference, { reference, contacts: contacts - 1 })
    this.#results++
    this.#settle()
    return reference
  }

  /** Resolves when at most so many contacts have no result. */
  async untilMissing (maxMissing: number): Promise<void> {
    let before = this.#results
    const timer = setInterval(() => {
      if (this.#results === before) {
        this.fail(new CommandError(`No result arrived for ${Math.round(this.#silenceMs / 1_000)} ` +
          `s; ${this.#sent - this.#results} results are missing. A feed waits while its ` +
          'organization has too little balance or ten running jobs: check "npm run admin -- ' +
          'balance". The contacts are stored, and their results will follow, unless the partner ' +
          'was revoked: check "npm run admin -- partner list".'))
      }
      before = this.#results
    }, this.#silenceMs)
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    this.#wait = { maxMissing, resolve, reject }
    this.#settle()
    await promise.finally(() => clearInterval(timer))
  }

  /** Rejects the wait, and later ones. */
  fail (error: unknown): void {
    this.#failure ??= error
    this.#settle()
  }

  #settle (): void {
    if (this.#wait === undefined) return
    const { maxMissing, resolve, reject } = this.#wait
    if (this.#failure !== undefined) reject(this.#failure)
    else if (this.#sent - this.#results <= maxMissing) resolve()
  }
}

export type FileOptions = {
  readonly file: string
  /** Field of the inputs. By default a field with a usual name. */
  readonly column?: string
  /** Field of the references. By default a field with a usual name, else rows are numbered. */
  readonly referenceColumn?: string
}

type FileContact = {
  readonly input: string
  /** Undefined when the file has no references. */
  readonly reference: string | undefined
  readonly countryCode: string | undefined
}

export type ContactFile = {
  readonly contacts: AsyncIterable<FileContact>
  /** The share of the file that was read, from 0 to 1. */
  readonly read: () => number
}

type Fields = Readonly<Record<string, unknown>>
/** The fields of contacts and of references; undefined if the rows are numbered. */
type FieldNames = { readonly input: string, readonly reference: string | undefined }

const INPUT_NAMES = ['input', 'phone', 'email', 'contact']
const REFERENCE_NAMES = ['reference', 'id']

/**
 * Streams the contacts of a CSV file with a header, or of an NDJSON file of any size. Throws
 * CommandError when the file does not exist, is invalid, or has no recognizable contact field.
 */
export function openContactFile (
  options: FileOptions, onFields: (names: FieldNames) => void = () => {}
): ContactFile {
  const read = isCsvName(options.file) ? readCsv : readJsonLines
  const file = openInput(options.file)
  const bytes = file.size()
  let position = 0
  async function * records (): AsyncIterable<Fields> {
    try {
      for await (const { fields, to } of read(file)) {
        position = to
        yield fields
      }
      position = bytes
    } finally {
      file.close()
    }
  }
  return {
    contacts: readContactRows(records(), options, onFields),
    read: () => bytes === 0 ? 1 : position / bytes,
  }
}

/** What a file of contacts has: its rows, and the fields that they are taken from. */
export type ContactFileFacts = FieldNames & { readonly contacts: number }

/**
 * Reads a file once and checks every row, so that nothing is sent of a file that cannot be sent to
 * its end. Throws CommandError as `openContactFile`, for a file without rows, and for a row without
 * its reference.
 */
export async function inspectContactFile (options: FileOptions): Promise<ContactFileFacts> {
  const { file } = options
  let fields: FieldNames | undefined
  const { contacts } = openContactFile(options, names => { fields = names })
  let rows = 0
  for await (const { reference } of contacts) {
    rows++
    if (reference === '') throw emptyReference(rows)
  }
  if (fields === undefined) throw new CommandError(`File ${file} has no contacts.`)
  return { contacts: rows, ...fields }
}

function emptyReference (row: number): CommandError {
  return new CommandError(`Row ${row} of the file has an empty reference. Fill it in, or leave ` +
    'the references of all rows out to number them.')
}

function isCsvName (file: string): boolean {
  const isCsv = /\.csv$/i.test(file)
  if (isCsv || /\.(ndjson|jsonl)$/i.test(file)) return isCsv
  throw new CommandError(`${file} has an unknown file type. Use .csv, .ndjson or .jsonl.`)
}

async function * readContactRows (
  records: AsyncIterable<Fields>, { file, column, referenceColumn }: FileOptions,
  onFields: (names: FieldNames) => void
): AsyncIterable<FileContact> {
  let input: string | undefined
  let reference: string | undefined
  let row = 0
  for await (const record of records) {
    row++
    if (input === undefined) {
      const names = Object.keys(record)
      input = selectField(names, { file, named: column, usual: INPUT_NAMES })
      if (input === undefined && names.length === 1) [input] = names
      if (input === undefined) {
        throw new CommandError(`The contact field of ${file} is ambiguous. Name it with ` +
          `--column. The fields are: ${names.join(', ')}.`)
      }
      reference = selectField(names, { file, named: referenceColumn, usual: REFERENCE_NAMES })
      onFields({ input, reference })
    }
    yield {
      input: readText(record, input, row),
      reference: reference === undefined ? undefined : readText(record, reference, row),
      countryCode: readText(record, 'countryCode', row) || undefined,
    }
  }
}

type FieldOptions = {
  readonly file: string
  readonly named: string | undefined
  readonly usual: readonly string[]
}

function selectField (
  names: readonly string[], { file, named, usual }: FieldOptions
): string | undefined {
  if (named === undefined) return usual.find(name => names.includes(name))
  const [position, ...others] = findPositions(names, named)
  if (position !== undefined && others.length === 0) return names[position]
  throw new CommandError(`${file} has no field ${named}. The fields are: ${names.join(', ')}.`)
}

function readText (record: Fields, field: string, row: number): string {
  const value = record[field]
  if (typeof value === 'string') return value
  if (value !== INEXACT) return ''
  throw new CommandError(`Row ${row} of the file has a number as ${field} that is not exact in ` +
    'JSON. Write it in quotes.')
}

/** A record, and about where it ends in the file. */
type FieldRecord = { readonly fields: Fields, readonly to: number }

async function * readCsv (file: InputFile): AsyncIterable<FieldRecord> {
  const dialect = detectDialect(file.readStart(SAMPLE_BYTES))
  let names: readonly string[] | undefined
  let row = 0
  for await (const { cells, text, to } of readRecords(file, dialect, {
    from: dialect.startByte, to: file.size(),
  })) {
    if (text === '') continue
    const texts = cells.map(cell => decodeCell(cell, 'windows-1252'))
    if (names === undefined) {
      const columns = Map.groupBy(texts, name => name)
      const isRepeated = (name: string) => (columns.get(name)?.length ?? 0) > 1
      const ambiguous = ['countryCode', ...REFERENCE_NAMES].find(isRepeated)
      if (ambiguous !== undefined) {
        throw new CommandError(`${file.path} has several columns ${ambiguous}. Rename all but one.`)
      }
      // Columns that share a name are named by their positions.
      names = texts.map((name, at) => isRepeated(name) ? `#${at + 1}` : name)
      continue
    }
    row++
    if (texts.length !== names.length) {
      throw new CommandError(`Cannot parse ${file.path} as CSV: row ${row} has ${texts.length} ` +
        `cells, and the line of column names ${names.length}.`)
    }
    yield { fields: Object.fromEntries(names.map((name, at) => [name, texts[at]])), to }
  }
}

async function * readJsonLines (file: InputFile): AsyncIterable<FieldRecord> {
  let line = 0
  let to = 0
  for await (const text of readLines(readPieces(file))) {
    line++
    to += Buffer.byteLength(text) + 1
    if (text.trim() === '') continue
    yield { fields: parseObject(text, `${file.path}, line ${line}`), to }
  }
}

/** Nothing reads ahead, so that the file can be closed at any time. */
async function * readPieces (file: InputFile): AsyncIterable<Uint8Array> {
  for (let at = 0; at < file.size();) {
    const piece = await file.readRange(at, PIECE_BYTES)
    if (piece.length === 0) return
    at += piece.length
    yield piece
  }
}

const PIECE_BYTES = 65_536

function parseObject (text: string, position: string): Fields {
  try {
    const value: unknown = JSON.parse(text, reviveNumber)
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Fields
  } catch {
    // Reported below, like a value of another type.
  }
  throw new CommandError(
    `${position} is not a JSON object. Each line must look like {"input":"+12127365000"}.`)
}

/** In place of a number that is another one in the file than JSON reads. */
const INEXACT = Symbol('inexact')

/** A whole number becomes its text, whatever its notation in the file: `1.0`, `1E0`. */
function reviveNumber (_name: string, value: unknown, context?: { readonly source?: string }) {
  if (typeof value !== 'number') return value
  const text = String(value)
  const [read, written] = [text, context?.source ?? text].map(number =>
    number.replaceAll(/e.*|[-.]/gi, '').replace(/^0+/, '')) as [string, string]
  const isExact = read.padEnd(written.length, '0') === written.padEnd(read.length, '0')
  return isExact && Number.isSafeInteger(value) ? text : INEXACT
}

export type ResultFile = {
  readonly write: (result: ContactResult) => void
  /** Completes the file. Until then `<file>.part` contains the results. */
  readonly finish: () => Promise<void>
}

const DISCARD: ResultFile = { write: () => {}, finish: async () => {} }
const FIRST_COLUMNS = ['reference', 'resultId', 'status', 'reason', 'input']

/**
 * Opens a result file: NDJSON is written directly, CSV at the end, when all columns are known.
 * Without a file it discards the results. Throws CommandError for another file type.
 */
export function openResultFile (file: string | undefined): ResultFile {
  if (file === undefined) return DISCARD
  const isCsv = isCsvName(file)
  const [folder, name] = [new OutputFolder(dirname(file)), basename(file)]
  const part = `${name}.part`
  folder.checkReplaceable(name)
  const fd = folder.create(part)
  const stream = createWriteStream('', { fd, autoClose: false })
  // `finished` reports it.
  stream.on('error', () => {})
  const columns = new Set(FIRST_COLUMNS)
  return {
    write: ({ reference, resultId, cells }) => {
      for (const name in cells) if (typeof cells[name] !== 'object') columns.add(name)
      stream.write(`${JSON.stringify({ reference, resultId, ...cells })}\n`)
    },
    finish: async () => {
      try {
        await finished(stream.end())
        if (isCsv) {
          const next = `${name}.new`
          const target = createWriteStream('', { fd: folder.create(next) })
          await pipeline(toCsv(fd, [...columns]), target)
          folder.rename(next, name)
          folder.remove(part)
        } else folder.rename(part, name)
      } finally {
        closeSync(fd)
        folder.close()
      }
    },
  }
}

/** The cell of a column; `checks` are for JSON only, as in result files. */
function textIn (cells: FeedCells, column: string): string {
  const cell = cells[column]
  return cell === undefined || typeof cell === 'object' ? '' : String(cell)
}

/** The results of an open NDJSON file as lines of CSV. */
async function * toCsv (from: number, columns: readonly string[]): AsyncIterable<string> {
  yield `${columns.join(',')}\r\n`
  for await (const line of createInterface({
    input: createReadStream('', { fd: from, autoClose: false, start: 0 }),
  })) {
    const cells = JSON.parse(line) as FeedCells
    yield `${columns.map(name => csvCell(textIn(cells, name))).join(',')}\r\n`
  }
}
