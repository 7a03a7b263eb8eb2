import { MAX_BODY_BYTES } from '../../../schemas/api/create-job.ts'
import { MAX_LINE_BYTES } from '../../../schemas/files/csv-format.ts'
import { readWorkbook, type SheetFacts, type SheetRow } from '../../../schemas/files/workbook.ts'
import { ApiException } from '../errors.ts'
import {
  asApiException, createRows, type CsvFile, type CsvReadOptions, type FileRecord, type LineNames,
} from './read-csv.ts'

/** A sheet of 100,000 rows and some twenty columns has 100 MiB as XML. */
const MAX_INFLATED_BYTES = 256 * 1_024 * 1_024

/** How the lines of a workbook are called in errors. */
export const ROWS_OF_SHEET: LineNames = {
  at: row => `Row ${row} of the sheet`,
  advice: 'Name every column in the first row, or remove the cells beside the table.',
}

export type WorkbookReading = {
  /** Awaited before each slice of work, which takes a few milliseconds. */
  readonly pause: () => Promise<void>
  /** Reserves memory for the request; throws if there is none. */
  readonly reserve: (bytes: number) => void
}

/**
 * Reads a sheet of a workbook (.xlsx) as if it had been saved as CSV: the same rows, limits and
 * errors, in which a line is a row of the sheet.
 * @throws ApiException that names the sheet, the row or the limit, and what to do.
 */
export async function readSheet (
  bytes: Buffer, options: CsvReadOptions, reading: WorkbookReading
): Promise<CsvFile> {
  const rows = createRows(options, ROWS_OF_SHEET)
  await scanSheet(bytes, options, reading, record => rows.add(record))
  return rows.finish()
}

type ScanOptions = Pick<CsvReadOptions, 'delimiter' | 'sheet'> & { readonly maxRows?: number }

/** Gives the rows of a sheet as records of a CSV file. @throws ApiException as `readSheet` does. */
export async function scanSheet (
  bytes: Buffer, { delimiter, sheet, maxRows }: ScanOptions, reading: WorkbookReading,
  add: (record: FileRecord) => void
): Promise<SheetFacts> {
  if (delimiter !== undefined) {
    throw new ApiException({
      code: 'invalid_request',
      param: 'delimiter',
      message: 'delimiter is for text, and the file is a workbook. Leave delimiter out.',
    })
  }
  let last = 0
  let textBytes = 0
  const addRow = ({ row, cells }: SheetRow) => {
    if (row > last + 1) add({ kind: 'blank', lines: row - last - 1, end: 0, line: row - 1 })
    last = row
    const rowBytes = cells.reduce((sum, cell) => sum + Buffer.byteLength(cell), 0)
    if (rowBytes > MAX_LINE_BYTES) throw tooLongRow(row)
    textBytes += rowBytes
    if (textBytes > MAX_BODY_BYTES) throw tooMuchText()
    add({ kind: 'cells', cells, end: 0, line: row })
  }
  try {
    return await readWorkbook(bytes, {
      sheet,
      maxInflatedBytes: MAX_INFLATED_BYTES,
      ...maxRows !== undefined && { maxRows },
      ...reading,
    }, addRow)
  } catch (error) {
    throw asApiException(error)
  }
}

function tooLongRow (row: number): ApiException {
  return new ApiException({
    code: 'invalid_file',
    param: 'file',
    message: `Row ${row} of the sheet has more than ${MAX_LINE_BYTES.toLocaleString('en-US')} ` +
      'bytes. Shorten it.',
  })
}

function tooMuchText (): ApiException {
  return new ApiException({
    code: 'invalid_file',
    param: 'file',
    message: 'The sheet has more than 34 MiB of text. Remove columns, or split it into several ' +
      'jobs.',
  })
}
