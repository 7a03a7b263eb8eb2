import { createHash } from 'node:crypto'
import { COMMON_COLUMNS, STANDARD_COLUMNS } from '../../schemas/api/columns.ts'
import {
  ID_PATTERN, type JobInput, MAX_ID_CHARACTERS, MAX_INPUTS, truncateInput,
} from '../../schemas/api/create-job.ts'
import { type FilePreviewBody, PREVIEW_ROWS } from '../../schemas/api/file.ts'
import {
  csvCell, isBlankLine, MAX_COLUMNS, findPositions, SAMPLE_BYTES,
} from '../../schemas/files/csv-format.ts'
import type { Client } from './client.ts'
import { type InputFile, openInput } from './files.ts'
import { CommandError, UsageError } from './terminal.ts'
import {
  type ByteRange, type CsvRecord, decodeCell, detectDialect, type Dialect, readRecords,
  type TextEncoding,
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
  /** Index of the column with the caller's own ids. */
  readonly idColumn?: number
  /** Largest number of cells in a record. Shorter records are padded. */
  readonly width: number
  readonly rows: number
  readonly header: ByteRange
  /** The end of lines that do not end in CRLF or LF: CR if no line does. */
  readonly lineEnd: string
  readonly ranges: readonly RowRange[]
}

/** The service accepts 34 MiB. The rest of the request body needs a part of it. */
const MAX_BODY_BYTES = 32_000_000

export type ReadFileOptions = {
  readonly delimiter?: string
  /** Of a workbook: the name of the sheet, or its number from 1. */
  readonly sheet?: string
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

/** The header of a table and its first rows. */
export type TableHead = {
  readonly header: readonly string[]
  readonly rows: readonly (readonly string[])[]
}

/** Streams the records of a file. Blank lines before the line of column names are none. */
async function * readTable (
  file: InputFile, { dialect, bytes }: FileFacts
): AsyncIterable<CsvRecord> {
  let isInTable = false
  for await (const record of readRecords(file, dialect, { from: dialect.startByte, to: bytes })) {
    isInTable ||= !isBlankLine(record.cells)
    if (isInTable) yield record
  }
}

/** Reads the header and the first rows. Throws CommandError for a file without rows. */
export async function readHead (file: InputFile, facts: FileFacts): Promise<TableHead> {
  const records: string[][] = []
  for await (const { cells } of readTable(file, facts)) {
    records.push(cells.map(cell => decodeCell(cell, facts.encoding)))
    if (records.length > PREVIEW_ROWS) break
  }
  const [header, ...rows] = records
  if (header === undefined) throw new CommandError(`File ${file.path} is empty.`)
  if (rows.length === 0) throw withoutRows(file)
  return { header, rows }
}

const withoutRows = ({ path }: InputFile) =>
  new CommandError(`File ${path} has no rows below its line of column names.`)

type PlanOptions = Pick<Plan, 'column' | 'idColumn'> & { readonly rowsPerJob?: number }

/**
 * Splits a file into jobs of at most `rowsPerJob` rows (100,000 by default, the limit of the
 * service) whose requests the service accepts. Throws CommandError when the file has no rows, or an
 * id that is not valid.
 */
export async function planJobs (
  file: InputFile, facts: FileFacts, options: PlanOptions
): Promise<Plan> {
  const { column, idColumn, rowsPerJob = MAX_INPUTS } = options
  const ranges: RowRange[] = []
  let header: ByteRange | undefined
  const ends = new Set<string>()
  let width = 0
  let bodyBytes = 0
  let range: RowRange | undefined
  let last: { readonly range: RowRange, readonly before: number } | undefined
  for await (const record of readTable(file, facts)) {
    const { cells, from, to } = record
    width = Math.max(width, cells.length)
    ends.add(record.end.replace(/^\r+\n$/, '\r\n'))
    if (header === undefined) {
      header = { from, to }
      continue
    }
    const input = toInput(cells, { column, idColumn }, facts.encoding)
    const rowNumber = range === undefined ? 1 : range.firstRow + range.rows + 1
    if (typeof input !== 'string') checkId(input.id, rowNumber)
    const added = jsonBytes(input)
    if (range === undefined || range.rows === rowsPerJob || bodyBytes + added > MAX_BODY_BYTES) {
      if (range !== undefined) ranges.push(range)
      range = { firstRow: range === undefined ? 0 : range.firstRow + range.rows, rows: 0, from, to }
      bodyBytes = 0
    }
    range = { ...range, rows: range.rows + 1, to }
    bodyBytes += added
    if (!isBlankLine(cells)) last = { range, before: ranges.length }
  }
  if (header === undefined || last === undefined) throw withoutRows(file)
  // Blank lines behind the last row are none.
  ranges.splice(last.before, Infinity, last.range)
  // A lone CR between lines that end in LF would be taken for a part of a line.
  const lineEnd = ['\r\n', '\n', '\r'].find(end => ends.has(end)) ?? '\n'
  return {
    column,
    idColumn,
    width,
    rows: last.range.firstRow + last.range.rows,
    header,
    lineEnd,
    ranges,
  }
}

/** The contact to send for a cell, truncated as the service does: results show what was sent. */
export function decodeContact (cell: string | undefined, encoding: TextEncoding): string {
  return truncateInput(decodeCell(cell ?? '', encoding)).toWellFormed()
}

const jsonBytes = (input: JobInput) => Buffer.byteLength(JSON.stringify(input)) + 1

type Columns = { readonly column: number, readonly idColumn?: number | undefined }

/** What a job gets of a row: its contact, with its id if there is a column of ids. */
function toInput (
  cells: readonly string[], { column, idColumn }: Columns, encoding: TextEncoding
): JobInput {
  const input = decodeContact(cells[column], encoding)
  if (idColumn === undefined) return input
  return { input, id: decodeCell(cells[idColumn] ?? '', encoding) }
}

const ID = new RegExp(ID_PATTERN, 'u')

function checkId (id: string, row: number): void {
  if ([...id].length > MAX_ID_CHARACTERS) {
    throw new CommandError(`The id of row ${row} has ${[...id].length} characters. An id has at ` +
      `most ${MAX_ID_CHARACTERS}: choose another --id-column, or shorten it.`)
  }
  if (!ID.test(id)) {
    throw new CommandError(`The id of row ${row} contains a line break or another control ` +
      'character. Remove it, or choose another --id-column.')
  }
}

/** Reads the contacts of one job, with their ids, in the order of the file. */
export async function readContacts (
  file: InputFile, { dialect, encoding }: FileFacts,
  { range, ...columns }: Columns & { readonly range: RowRange }
): Promise<readonly JobInput[]> {
  const inputs: JobInput[] = []
  for await (const { cells } of readRecords(file, dialect, range)) {
    inputs.push(toInput(cells, columns, encoding))
  }
  return inputs
}

type PreviewQuestion = { readonly service?: string, readonly column?: string | undefined }

/** What the service found in the first lines of a file; the column counts from 0. */
export type Preview = Omit<FilePreviewBody, 'column'> & { readonly column: number | undefined }

/**
 * Asks the service for the column and the service of a file's contacts. Sends its first lines, and
 * of them only the named column. Throws UsageError for a column that does not exist, and for a
 * file whose first line is a row.
 */
export async function previewHead (
  client: Client, { header, rows }: TableHead, { service, column }: PreviewQuestion
): Promise<Preview> {
  const named = column === undefined ? undefined : indexOfName(header, column)
  // A blank cell alone would be no line of column names.
  const lines = named === undefined
    ? [header, ...rows]
    : [[header[named] || `#${named + 1}`], ...rows.map(cells => [cells[named] ?? ''])]
  const csv = lines.map(cells => cells.slice(0, MAX_COLUMNS)
    .map(cell => csvCell(truncateInput(cell))).join(',')).join('\n')
  const preview = await client.previewFile(Buffer.from(csv.toWellFormed()), {
    delimiter: 'comma', service,
  })
  if (!preview.header) {
    throw new UsageError('The first line of the file must contain column names, but it contains ' +
      'a contact. Insert a line with column names above it.')
  }
  const guessed = preview.column === null ? undefined : preview.column - 1
  return { ...preview, column: guessed === undefined ? undefined : named ?? guessed }
}

type DetectOptions = ReadFileOptions & {
  readonly column?: string
  /** Only a file below it is read. */
  readonly folder?: string
}

/**
 * Selects the service for a file whose contacts are clearly of one kind. Throws UsageError for an
 * ambiguous file and CommandError for one that cannot be read.
 */
export async function detectService (
  client: Client, file: string, options: DetectOptions
): Promise<string> {
  const { column, folder } = options
  const input = openInput(file, folder)
  const { service, reason } = await readFacts(input, options)
    .then(async facts => await previewHead(client, await readHead(input, facts), { column }))
    .finally(() => { input.close() })
  if (service !== null) return service
  throw new UsageError(`${reason} Name the column with --column, or the service with --service, ` +
    'for example --service phone-validation.')
}

/**
 * The index of a named column: in any case, `#3` for the third one. Throws UsageError with the
 * existing columns when there is none or more than one. `option` is where it was named.
 */
export function indexOfName (
  header: readonly string[], name: string, option = '--column'
): number {
  const indexes = findPositions(header, name)
  const [only] = indexes
  if (indexes.length === 1 && only !== undefined) return only
  const position = /^#([1-9]\d*)$/.exec(name)?.[1]
  if (indexes.length === 0 && position !== undefined && Number(position) <= header.length) {
    return Number(position) - 1
  }
  const positions = indexes.map(index => `#${index + 1}`)
  throw new UsageError(indexes.length > 1
    ? `${indexes.length} columns have the name ${name}. Select one by its position: ${option} ` +
      `'${positions.join("' or '")}'.`
    : `The file has no column ${name}. ${columnList(header)}`)
}

const columnList = (header: readonly string[]) => 'The columns are: ' +
  `${header.map((name, index) => name === '' ? `#${index + 1}` : name).join(', ')}.`

/** The joined file has these already: its own columns, and the order of its lines. */
const OMITTED: readonly string[] = ['row', 'input', 'id']

/** Columns whose cells contain a row number of the job. */
export const ROW_NUMBER_COLUMNS: readonly string[] = ['duplicate_of']

/**
 * The result columns to append: those of `--only status,line_type`, in this order, or without the
 * option all of the service. Throws UsageError for a column that the service does not return.
 */
export function selectColumns (
  only: string | undefined, ofService: readonly string[]
): readonly string[] {
  if (only === undefined) return ofService.filter(name => !OMITTED.includes(name))
  const available = [...STANDARD_COLUMNS, ...COMMON_COLUMNS, ...ofService]
    .filter(name => !OMITTED.includes(name))
  const names = [...new Set(only.split(',').map(name => name.trim()).filter(name => name !== ''))]
  const unknown = names.filter(name => !available.includes(name))
  if (names.length > 0 && unknown.length === 0) return names
  const problem = unknown.length > 0 ? `there is no ${unknown.join(', ')}` : 'the list is empty'
  throw new UsageError(
    `--only: ${problem}. The columns of this service are: ${available.join(', ')}.`)
}
