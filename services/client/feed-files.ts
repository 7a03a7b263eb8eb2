import { once } from 'node:events'
import {
  closeSync, createReadStream, createWriteStream, existsSync, openSync, readSync, statSync,
} from 'node:fs'
import { basename, dirname } from 'node:path'
import { createInterface } from 'node:readline'
import { parse } from 'csv-parse'
import { csvCell, positionsOf, SAMPLE_BYTES } from '../../schemas/files/csv-format.ts'
import type { FeedCells } from '../../schemas/feeds/seal.ts'
import type { ContactResult } from './feed-connection.ts'
import { OutputFolder } from './files.ts'
import { CommandError } from './terminal.ts'
import { decodeCell, detectDialect, type Dialect } from './csv.ts'

export type FileOptions = {
  readonly file: string
  /** Field of the inputs. By default a field with a usual name. */
  readonly column?: string
  /** Field of the references. By default a field with a usual name, else rows are numbered. */
  readonly referenceColumn?: string
}

export type FileContact = {
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
  const { file } = options
  if (!existsSync(file)) throw new CommandError(`File ${file} does not exist.`)
  const isCsv = isCsvName(file)
  const bytes = statSync(file).size
  const dialect = isCsv ? readDialect(file) : undefined
  const start = dialect?.startByte ?? 0
  const stream = createReadStream(file, { start })
  const records = dialect === undefined
    ? jsonRecords(stream, file)
    : csvRecords(stream, dialect.delimiter)
  return {
    contacts: readContactRows(records, options, onFields),
    read: () => bytes === 0 ? 1 : (start + stream.bytesRead) / bytes,
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

/** The error for a row whose reference is empty. */
export function emptyReference (row: number): CommandError {
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
  for await (const record of records) {
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
      input: toText(record[input]),
      reference: reference === undefined ? undefined : toText(record[reference]),
      countryCode: toText(record['countryCode']) || undefined,
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
  const [position, ...others] = positionsOf(names, named)
  if (position !== undefined && others.length === 0) return names[position]
  throw new CommandError(`${file} has no field ${named}. The fields are: ${names.join(', ')}.`)
}

function toText (value: unknown): string {
  if (typeof value === 'string') return value
  return typeof value === 'number' ? String(value) : ''
}

function readDialect (file: string): Dialect {
  const sample = Buffer.alloc(SAMPLE_BYTES)
  const handle = openSync(file, 'r')
  try {
    return detectDialect(sample.subarray(0, readSync(handle, sample, 0, sample.length, 0)))
  } finally {
    closeSync(handle)
  }
}

async function * csvRecords (
  stream: NodeJS.ReadableStream & { readonly path: string | Buffer }, delimiter: string
): AsyncIterable<Fields> {
  const options = {
    columns: true,
    // Each byte is a character until the cells are decoded, some of which may not be UTF-8.
    encoding: 'latin1' as const,
    cast: (cell: string) => decodeCell(cell, 'windows-1252'),
    skip_empty_lines: true,
    delimiter,
    record_delimiter: ['\r\r\n', '\r\n', '\n', '\r'],
    relax_quotes: true,
  }
  const parser = stream.pipe(parse(options))
  try {
    yield * parser as AsyncIterable<Fields>
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause)
    throw new CommandError(`Cannot parse ${String(stream.path)} as CSV: ${reason}`, { cause })
  }
}

async function * jsonRecords (stream: NodeJS.ReadableStream, file: string): AsyncIterable<Fields> {
  let line = 0
  for await (const text of createInterface({ input: stream, crlfDelay: Infinity })) {
    line++
    if (text.trim() === '') continue
    yield parseObject(text, `${file}, line ${line}`)
  }
}

function parseObject (text: string, position: string): Fields {
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Fields
  } catch {
    // Reported below, like a value of another type.
  }
  throw new CommandError(
    `${position} is not a JSON object. Each line must look like {"input":"+12127365000"}.`)
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
  let failure: unknown
  stream.on('error', error => { failure = error })
  const columns = new Set(FIRST_COLUMNS)
  return {
    write: ({ reference, resultId, cells }) => {
      for (const name in cells) if (typeof cells[name] !== 'object') columns.add(name)
      stream.write(`${JSON.stringify({ reference, resultId, ...cells })}\n`)
    },
    finish: async () => {
      if (failure === undefined) await new Promise<void>(resolve => stream.end(() => resolve()))
      try {
        if (failure !== undefined) throw failure
        if (isCsv) await writeCsv(fd, { folder, name, columns: [...columns] })
        else folder.rename(part, name)
      } finally {
        closeSync(fd)
      }
      if (isCsv) folder.remove(part)
      folder.close()
    },
  }
}

/** The cell of a column; `checks` are for JSON only, as in result files. */
export function textIn (cells: FeedCells, column: string): string {
  const cell = cells[column]
  return cell === undefined || typeof cell === 'object' ? '' : String(cell)
}

type CsvFile = {
  readonly folder: OutputFolder
  readonly name: string
  readonly columns: readonly string[]
}

/** Writes the results of an open NDJSON file as CSV. */
async function writeCsv (from: number, { folder, name, columns }: CsvFile): Promise<void> {
  const next = `${name}.new`
  const target = createWriteStream('', { fd: folder.create(next) })
  target.write(`${columns.join(',')}\r\n`)
  for await (const line of createInterface({
    input: createReadStream('', { fd: from, autoClose: false, start: 0 }),
  })) {
    const cells = JSON.parse(line) as FeedCells
    const text = columns.map(name => csvCell(textIn(cells, name))).join(',')
    if (!target.write(`${text}\r\n`)) await once(target, 'drain')
  }
  await new Promise<void>((resolve, reject) => {
    target.once('error', reject).end(() => resolve())
  })
  folder.rename(next, name)
}
