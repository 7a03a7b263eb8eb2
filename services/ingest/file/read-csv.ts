import { isUtf8 } from 'node:buffer'
import { pipeline } from 'node:stream/promises'
import { CsvError, parse } from 'csv-parse'
import { MAX_INPUTS } from '../../../schemas/api/create-job.ts'
import { detectDelimiter, detectRecordEnd } from '../../../schemas/files/csv-format.ts'
import { MAX_COLUMNS, MAX_LINE_BYTES } from '../../../schemas/files/limits.ts'
import { csvCell } from '../../results/csv.ts'
import { ApiException, type ApiError } from '../errors.ts'
import { chooseColumn, type ChosenColumn, type ColumnOptions } from './choose-column.ts'

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
