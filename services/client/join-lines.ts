import { CommandError } from './command-error.ts'
import { csvCell, guardCell } from './csv-cells.ts'
import { cellOf } from './csv-dialect.ts'
import type { CsvRecord } from './csv-records.ts'
import { contactOf, type FileFacts, type Plan } from './plan.ts'
import { ROW_NUMBERS } from './result-columns.ts'

export type Layout = {
  readonly file: Pick<FileFacts, 'dialect' | 'encoding'>
  readonly plan: Pick<Plan, 'column' | 'width' | 'lineEnd'>
  /** The verification columns to add, by their names in results. */
  readonly columns: readonly string[]
  readonly guarded: boolean
}

type Place = {
  readonly columnsOfResults: readonly string[]
  /** Rows of the file before those of the job. */
  readonly firstRow: number
}

/**
 * Makes the lines of a job: a record of the file as it stands there, filled up to the width of the
 * table, and its verification cells. One character a byte, as records have. The function throws
 * CommandError when the result is of another contact.
 */
export function createLines (layout: Layout, { columnsOfResults, firstRow }: Place) {
  const { file: { encoding }, plan, columns } = layout
  const places = columns.map(name => ({
    at: columnsOfResults.indexOf(name), isRow: ROW_NUMBERS.includes(name),
  }))
  const inputAt = columnsOfResults.indexOf('input')
  let row = firstRow
  return (record: CsvRecord, result: readonly string[]): string => {
    row++
    if (result[inputAt] !== contactOf(record.cells[plan.column], encoding)) {
      throw new CommandError(`Row ${row} of the file is not what was verified: the file has been ` +
        'changed meanwhile. Put it back as it was and run the command again.')
    }
    const added = places.map(({ at, isRow }) => {
      const text = result[at] ?? ''
      return isRow && text !== '' ? String(Number(text) + firstRow) : text
    })
    // The last line of a file may lack its end; behind the added cells it gets one.
    return joined(record, added, layout) + (record.end || plan.lineEnd)
  }
}

/** Spreadsheets know a file in UTF-8 by it, so a file that has it keeps it. */
const UTF8_MARK = '\u00ef\u00bb\u00bf'

/** The first line: the names of the file's columns, and those of the added ones. */
export function headerLine (record: CsvRecord, names: readonly string[], layout: Layout): string {
  const mark = layout.file.dialect.startByte > 0 ? UTF8_MARK : ''
  return mark + joined(record, names, layout) + record.end
}

function joined (record: CsvRecord, added: readonly string[], layout: Layout): string {
  const { file: { dialect: { delimiter }, encoding }, plan: { width }, guarded } = layout
  const cells = added.map(text =>
    cellOf(csvCell(guarded ? guardCell(text) : text, delimiter), encoding))
  const fill = delimiter.repeat(Math.max(0, width - record.cells.length))
  return `${ownText(record, layout)}${fill}${delimiter}${cells.join(delimiter)}`
}

/** Bytes stay as they are unless a cell has to be guarded. */
function ownText ({ text, cells }: CsvRecord, { file, guarded }: Layout): string {
  if (!guarded) return text
  const { delimiter } = file.dialect
  if (cells.every(cell => guardCell(cell) === cell)) return text
  return cells.map(cell => csvCell(guardCell(cell), delimiter)).join(delimiter)
}
