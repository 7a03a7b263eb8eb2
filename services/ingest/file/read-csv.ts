import { isUtf8 } from 'node:buffer'
import { pipeline } from 'node:stream/promises'
import { CsvError, parse } from 'csv-parse'
import { MAX_INPUTS } from '../../../schemas/api/create-job.ts'
import { detectDelimiter, detectRecordEnd, positionsOf } from '../../../schemas/files/csv-format.ts'
import { MAX_COLUMNS, MAX_LINE_BYTES } from '../../../schemas/files/limits.ts'
import { csvCell } from '../../results/csv.ts'
import { type ApiError, ApiException } from '../errors.ts'
import { SHOWN_CHARACTERS } from '../validation.ts'

/** How a file is read; what is undefined is detected. */
export type CsvReadOptions = ColumnOptions & { readonly delimiter?: string | undefined }

/** A file as a job needs it. */
export type CsvFile = {
  /** The cells of the column with the contacts. */
  readonly inputs: readonly string[]
  /** The names of all columns, `column_1` and so on without a header line. */
  readonly columns: readonly string[]
  /** Each row as a CSV line of the service, with as many cells as there are columns. */
  readonly lines: readonly string[]
}

const SAMPLE_BYTES = 65_536
const PIECE_BYTES = 65_536

/**
 * Reads a CSV file in UTF-8. Blank lines at its beginning and end are no rows. `pause` is awaited
 * before each few milliseconds of work.
 * @throws ApiException that names the line or the column, and the limit.
 */
export async function readCsv (
  bytes: Buffer, options: CsvReadOptions, pause: () => Promise<void>
): Promise<CsvFile> {
  if (!isUtf8(bytes) || bytes.subarray(0, SAMPLE_BYTES).includes(0)) throw notText()
  const sample = bytes.toString('utf8', 0, SAMPLE_BYTES).replace(/^\ufeff/, '')
  const ends = detectRecordEnd(sample)
  const rows = createRows(options)
  const parser = parse({
    bom: true,
    delimiter: options.delimiter ?? detectDelimiter(sample, ends),
    record_delimiter: ends === 'cr' ? ['\r'] : ['\r\n', '\n'],
    relax_column_count: true,
    relax_quotes: true,
    max_record_size: MAX_LINE_BYTES,
    // Returns nothing, so the parser keeps no record.
    on_record: (cells: readonly string[], { lines }) => { rows.add(cells, lines) },
  })
  parser.resume()
  try {
    await pipeline(piecesOf(bytes, pause), parser)
  } catch (error) {
    throw error instanceof CsvError ? syntaxError(error) : error
  }
  return rows.finish()
}

async function * piecesOf (bytes: Buffer, pause: () => Promise<void>) {
  for (let from = 0; from < bytes.length; from += PIECE_BYTES) {
    await pause()
    yield bytes.subarray(from, from + PIECE_BYTES)
  }
}

/** Collects the rows of a file, of which the first line decides the columns. */
function createRows (options: ColumnOptions) {
  const inputs: string[] = []
  const lines: string[] = []
  let chosen: ChosenColumn | undefined
  let blankLines = 0

  const push = (cells: readonly string[], { columns, at }: ChosenColumn) => {
    if (inputs.length === MAX_INPUTS) throw tooManyRows()
    inputs.push(cells[at] ?? '')
    lines.push(lineOf(cells, columns.length))
  }
  const add = (cells: readonly string[], line: number): void => {
    // The parser counts characters of all cells but the current one.
    if (bytesOf(cells) > MAX_LINE_BYTES) throw tooLong(line)
    if (cells.length === 1 && cells[0] === '') {
      blankLines++
      return
    }
    if (chosen === undefined) {
      if (cells.length > MAX_COLUMNS) throw tooManyColumns(cells.length, line)
      chosen = chooseColumn(cells, options)
      blankLines = 0
      if (chosen.isHeader) return
    }
    const width = chosen.columns.length
    if (cells.length > width && cells.slice(width).some(cell => cell !== '')) {
      throw tooManyCells(cells.length, width, line)
    }
    for (; blankLines > 0; blankLines--) push([], chosen)
    push(cells, chosen)
  }
  const finish = (): CsvFile => {
    if (chosen === undefined || inputs.length === 0) throw noRows(chosen !== undefined)
    return { inputs, columns: chosen.columns, lines }
  }
  return { add, finish }
}

function bytesOf (cells: readonly string[]): number {
  let bytes = cells.length - 1
  for (const cell of cells) bytes += Buffer.byteLength(cell)
  return bytes
}

/** A line with exactly so many cells: missing ones are blank. */
function lineOf (cells: readonly string[], width: number): string {
  const line = cells.slice(0, width).map(csvCell).join(',')
  return cells.length < width ? line + ','.repeat(width - Math.max(cells.length, 1)) : line
}

function fileError (message: string, more: Partial<ApiError> = {}): ApiException {
  return new ApiException({ code: 'invalid_file', param: 'file', message, ...more })
}

function notText (): ApiException {
  return fileError('The file is not text in UTF-8. Save it as "CSV UTF-8".', {
    code: 'invalid_encoding',
  })
}

function tooManyRows (): ApiException {
  const rows = MAX_INPUTS.toLocaleString('en-US')
  return fileError(`The file has more than ${rows} rows. Split it into several jobs.`, {
    code: 'too_many_inputs',
  })
}

function noRows (hasHeader: boolean): ApiException {
  return fileError(hasHeader
    ? 'The file has a header line, but no rows. If its first line is a row, send header=false.'
    : 'The file is empty. Send at least one row.')
}

function tooManyColumns (cells: number, line: number): ApiException {
  const count = cells.toLocaleString('en-US')
  return fileError(`Line ${line} of the file has ${count} columns. A file has at most ` +
    `${MAX_COLUMNS}. Remove some, or send the right delimiter.`)
}

function tooManyCells (cells: number, columns: number, line: number): ApiException {
  return fileError(`Line ${line} of the file has ${cells} cells, but its first line has ` +
    `${columns}. Put cells with a delimiter in them between double quotes.`)
}

function syntaxError ({ code, ...details }: CsvError): ApiException {
  const line = Number(details['lines'])
  switch (code) {
    case 'CSV_QUOTE_NOT_CLOSED': return fileError('A cell of the file begins with a double quote ' +
      `that is never closed; the file ends at line ${line}. Close it, or double the quote.`)
    case 'CSV_MAX_RECORD_SIZE': return tooLong(line)
    default: return fileError(`The file is not valid CSV at line ${line}.`)
  }
}

function tooLong (line: number): ApiException {
  return fileError(`Line ${line} of the file has more than ` +
    `${MAX_LINE_BYTES.toLocaleString('en-US')} bytes. Shorten it; if it is not that long, a ` +
    'double quote in it or in a line before is not closed.')
}

export type ColumnOptions = {
  /** A name, or a position from 1. */
  readonly column?: string | undefined
  /** Whether the first line names the columns. */
  readonly header?: boolean | undefined
}

type ChosenColumn = {
  readonly isHeader: boolean
  readonly columns: readonly string[]
  /** Position, from 0, of the column with the contacts. */
  readonly at: number
}

const POSITION = /^[1-9]\d{0,3}$/
const MAX_LISTED = 50

/**
 * Finds the column of the contacts by the first line of a file. Without an option, the line is a
 * header if the column was named, or if its cell in that column is neither blank nor a contact.
 * @throws ApiException for a column that is missing, unknown or ambiguous; it lists the names.
 */
export function chooseColumn (
  first: readonly string[], { column, header }: ColumnOptions
): ChosenColumn {
  const isPosition = column === undefined || POSITION.test(column)
  const at = isPosition ? atPosition(first, column, header) : atName(first, column, header)
  const cell = first[at] ?? ''
  const isHeader = header ?? (!isPosition || (cell.trim() !== '' && !mayBeContact(cell)))
  const columns = isHeader ? first : first.map((_, index) => `column_${index + 1}`)
  return { isHeader, columns, at }
}

function atPosition (
  first: readonly string[], column: string | undefined, header: boolean | undefined
): number {
  if (column === undefined && first.length === 1) return 0
  if (column === undefined) {
    throw columnError(`column is missing. The file has ${first.length} columns. Send the name or ` +
      `the number of the one with the contacts. ${listOf(first, header)}`)
  }
  if (Number(column) <= first.length) return Number(column) - 1
  throw columnError(`The file has no column ${column}: it has ${first.length}. ` +
    listOf(first, header))
}

function atName (
  first: readonly string[], column: string, header: boolean | undefined
): number {
  const shown = column.slice(0, SHOWN_CHARACTERS)
  if (header === false) {
    throw columnError(`column is "${shown}", but header is false. Send the number of the column, ` +
      'from 1.')
  }
  const found = positionsOf(first, column)
  const [only] = found
  if (only === undefined) {
    throw columnError(`The file has no column "${shown}". ${listOf(first, header)}`)
  }
  if (found.length > 1) {
    const numbers = found.slice(0, MAX_LISTED).map(index => index + 1)
    throw columnError(`${found.length} columns have the name "${shown}". Send the number of one: ` +
      `${numbers.join(', ')}.`)
  }
  return only
}

/** The names of the columns. A first line with contacts is no header, so it is not repeated. */
function listOf (first: readonly string[], header: boolean | undefined): string {
  if (header === false || (header === undefined && first.some(mayBeContact))) {
    return 'The first line of the file is a row, so columns have numbers only.'
  }
  const names = first.slice(0, MAX_LISTED).map((name, index) =>
    name.trim() === '' ? String(index + 1) : name.slice(0, SHOWN_CHARACTERS))
  const more = first.length > MAX_LISTED ? `, and ${first.length - MAX_LISTED} more` : ''
  return `The columns are: ${names.join(', ')}${more}.`
}

const MIN_DIGITS = 5

/** Rather takes a name for a contact than a contact for a name: no row may be lost. */
function mayBeContact (cell: string): boolean {
  return cell.includes('@') || cell.replace(/\D/g, '').length >= MIN_DIGITS
}

function columnError (message: string): ApiException {
  return new ApiException({ code: 'invalid_request', param: 'column', message })
}
