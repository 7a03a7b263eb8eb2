import { createHash } from 'node:crypto'
import { SAMPLE_BYTES } from '../../schemas/files/csv-format.ts'
import { MAX_INPUT_CHARACTERS, MAX_INPUTS } from '../../schemas/api/create-job.ts'
import { type ContactKind, contactKinds, type TableHead } from './columns.ts'
import { type InputFile, openInput } from './files.ts'
import { CommandError, UsageError } from './terminal.ts'
import {
  type ByteRange, decodeCell, detectDialect, type Dialect, readRecords, type TextEncoding,
} from './csv.ts'

/** Properties of an input file; `digest` is the SHA-256 of its bytes in hex. */
export type FileFacts = {
  readonly bytes: number
  readonly digest: string
  readonly dialect: Dialect
  readonly encoding: TextEncoding
}

/** The rows of one job: their bytes in the file, and the index of the first row from 0. */
export type RowRange = ByteRange & { readonly firstRow: number, readonly rows: number }

/** How a file is split into jobs. */
export type Plan = {
  /** Index of the contact column, from 0. */
  readonly column: number
  /** Largest number of cells in a record. Shorter records are padded. */
  readonly width: number
  readonly rows: number
  readonly header: ByteRange
  /** The end of lines that do not end in CRLF or LF: CR if no line does. */
  readonly lineEnd: string
  readonly ranges: readonly RowRange[]
}

const HEAD_ROWS = 200
/** The service accepts 34 MiB. The rest of the request body needs a part of it. */
const MAX_BODY_BYTES = 32_000_000

export type ReadFileOptions = {
  readonly delimiter?: string | undefined
  /** Of a workbook: the name of the sheet, or its number from 1. */
  readonly sheet?: string | undefined
}

/** Reads a file once. Throws CommandError when it is no text file and no workbook. */
export async function readFacts (
  file: InputFile, { delimiter, sheet }: ReadFileOptions = {}
): Promise<FileFacts> {
  await file.openSheet(sheet)
  const dialect = detectDialect(file.readStart(SAMPLE_BYTES), file.isSheet ? ',' : delimiter)
  const hash = createHash('sha256')
  const decoder = new TextDecoder('utf-8', { fatal: true })
  let bytes = 0
  let isUtf8 = true
  for await (const chunk of file.stream() as AsyncIterable<Buffer>) {
    hash.update(chunk)
    bytes += chunk.length
    isUtf8 &&= succeeds(() => decoder.decode(chunk, { stream: true }))
  }
  isUtf8 &&= succeeds(() => decoder.decode())
  const encoding = isUtf8 ? 'utf-8' : 'windows-1252'
  return { bytes, digest: hash.digest('hex'), dialect, encoding }
}

function succeeds (action: () => unknown): boolean {
  try {
    action()
    return true
  } catch {
    return false
  }
}

/** Reads the header and the first rows. Throws CommandError for an empty file. */
export async function readHead (
  file: InputFile, { dialect, encoding, bytes }: FileFacts
): Promise<TableHead> {
  const records: string[][] = []
  const whole = { from: dialect.startByte, to: bytes }
  for await (const { cells } of readRecords(file, dialect, whole)) {
    records.push(cells.map(cell => decodeCell(cell, encoding)))
    if (records.length > HEAD_ROWS) break
  }
  const [header, ...rows] = records
  if (header === undefined) throw new CommandError(`File ${file.path} is empty.`)
  return { header, rows }
}

type PlanOptions = { readonly column: number, readonly rowsPerJob?: number }

/**
 * Splits a file into jobs of at most `rowsPerJob` rows (100,000 by default, the limit of the
 * service) whose requests the service accepts. Throws CommandError when the file has no rows.
 */
export async function planJobs (
  file: InputFile, { dialect, encoding, bytes }: FileFacts, options: PlanOptions
): Promise<Plan> {
  const { column, rowsPerJob = MAX_INPUTS } = options
  const ranges: RowRange[] = []
  let header: ByteRange | undefined
  const ends = new Set<string>()
  let width = 0
  let bodyBytes = 0
  let range: RowRange | undefined
  for await (const record of readRecords(file, dialect, { from: dialect.startByte, to: bytes })) {
    const { cells, from, to } = record
    width = Math.max(width, cells.length)
    ends.add(record.end.replace(/^\r+\n$/, '\r\n'))
    if (header === undefined) {
      header = { from, to }
      continue
    }
    const added = jsonBytes(decodeContact(cells[column], encoding))
    if (range === undefined || range.rows === rowsPerJob || bodyBytes + added > MAX_BODY_BYTES) {
      if (range !== undefined) ranges.push(range)
      range = { firstRow: range === undefined ? 0 : range.firstRow + range.rows, rows: 0, from, to }
      bodyBytes = 0
    }
    range = { ...range, rows: range.rows + 1, to }
    bodyBytes += added
  }
  if (header === undefined || range === undefined) {
    throw new CommandError(`File ${file.path} has no rows below its line of column names.`)
  }
  ranges.push(range)
  // A lone CR between lines that end in LF would be taken for a part of a line.
  const lineEnd = ['\r\n', '\n', '\r'].find(end => ends.has(end)) ?? '\n'
  return { column, width, rows: range.firstRow + range.rows, header, lineEnd, ranges }
}

/** The contact to send for a cell. Truncated to the limit of the service; such rows are invalid. */
export function decodeContact (cell: string | undefined, encoding: TextEncoding): string {
  return decodeCell(cell ?? '', encoding).slice(0, MAX_INPUT_CHARACTERS).toWellFormed()
}

const jsonBytes = (contact: string) => Buffer.byteLength(JSON.stringify(contact)) + 1

/** Reads the contacts of one job, in the order of the file. */
export async function readContacts (
  file: InputFile, { dialect, encoding }: Pick<FileFacts, 'dialect' | 'encoding'>,
  { range, column }: { readonly range: RowRange, readonly column: number }
): Promise<readonly string[]> {
  const contacts: string[] = []
  for await (const { cells } of readRecords(file, dialect, range)) {
    contacts.push(decodeContact(cells[column], encoding))
  }
  return contacts
}

const DEFAULT_SERVICES: Readonly<Record<ContactKind, string>> = {
  phone: 'phone-validation', email: 'email-validation',
}

type DetectOptions = ReadFileOptions & {
  readonly column?: string | undefined
  /** Only a file below it is read. */
  readonly folder?: string | undefined
}

/**
 * Selects the service for a file whose contacts are clearly of one kind. Deterministic for the same
 * file. Throws UsageError for an ambiguous file and CommandError for one that cannot be read.
 */
export async function detectService (
  file: string, { column, delimiter, sheet, folder }: DetectOptions
): Promise<string> {
  const input = openInput(file, folder)
  const [kind, ...others] = await readFacts(input, { delimiter, sheet })
    .then(async facts => contactKinds(await readHead(input, facts), column))
    .finally(() => { input.close() })
  if (kind !== undefined && others.length === 0) return DEFAULT_SERVICES[kind]
  throw new UsageError(kind === undefined
    ? 'No column of the file looks like phone numbers or e-mail addresses. Name the service with ' +
      '--service, for example --service phone-validation.'
    : 'The file has columns of phone numbers and of e-mail addresses. Name the column with ' +
      '--column, or the service with --service.')
}
