import { uniqueNames } from '../../schemas/files/csv-format.ts'
import { csvCell, guardCell } from './csv.ts'
import type { MergedChunk } from './merge.ts'

/** The customer's own columns of a job from a file: the references of its rows are CSV lines. */
export type Original = {
  /** Names of the columns, as the customer spells them; some may be blank or equal. */
  readonly columns: readonly string[]
  /** Guards cells that a spreadsheet would run. */
  readonly safe: boolean
}

/** The joined file has these already: the column of the contacts, and the order of the lines. */
const OMITTED: ReadonlySet<string> = new Set(['row', 'input'])

/** The columns that are joined unless others are selected. */
export function joinedColumns (columns: readonly string[]): readonly string[] {
  return columns.filter(name => !OMITTED.has(name))
}

/**
 * The header of a joined file: the customer's columns, then ours, with a prefix where the customer
 * has a column of that name.
 */
export function joinedHeader (
  { columns: own, safe }: Original, columns: readonly string[]
): readonly string[] {
  const names = [...own, ...uniqueNames(columns, own)]
  return safe ? names.map(guardCell) : names
}

/**
 * Creates a reader of the customer's part of a line, as CSV. It is blank if the block that held it
 * is lost.
 */
export function createOriginalCsv (
  { columns, safe }: Original
): (chunk: Pick<MergedChunk, 'contacts'>, index: number) => string {
  const blank = ','.repeat(columns.length - 1)
  return ({ contacts }, index) => {
    const line = contacts?.references[index] ?? blank
    return safe ? cellsOfLine(line).map(cell => csvCell(guardCell(cell))).join(',') : line
  }
}

/**
 * Creates a reader of the customer's cells in a line, by column name. A blank or repeated name is
 * replaced by `column_` and its position.
 */
export function createOriginalRow (
  columns: readonly string[]
): (line: string) => Readonly<Record<string, string>> {
  const names = keysOf(columns)
  return line => {
    const cells = cellsOfLine(line)
    return Object.fromEntries(names.map((name, at) => [name, cells[at] ?? '']))
  }
}

function keysOf (columns: readonly string[]): readonly string[] {
  const used = new Set<string>()
  return columns.map((column, at) => {
    let name = column.trim() === '' || used.has(column) ? `column_${at + 1}` : column
    while (used.has(name)) name = `${name}_`
    used.add(name)
    return name
  })
}

/** The cells of a line as `csvLine` writes it, without its end. */
export function cellsOfLine (line: string): readonly string[] {
  if (!line.includes('"')) return line.split(',')
  const cells: string[] = []
  for (const [, quoted, plain = '', end] of line.matchAll(CELL)) {
    cells.push(quoted === undefined ? plain : quoted.replaceAll('""', '"'))
    if (end === '') break
  }
  return cells
}

/** A cell and the comma after it. */
const CELL = /(?:"([^"]*(?:""[^"]*)*)"|([^",]*))(,|$)/g
