import { guardCell, uniqueNames } from '../../../schemas/files/csv-format.ts'
import { csvCell } from './csv.ts'
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
 * Creates a reader of the customer's part of a line, as CSV with one cell for each column: stored
 * lines may have fewer. It is blank if the block that held it is lost.
 */
export function createOriginalCsv (
  { columns, safe }: Original
): (chunk: Pick<MergedChunk, 'contacts'>, index: number) => string {
  const commas = ','.repeat(columns.length - 1)
  return ({ contacts }, index) => {
    const line = contacts?.references[index] ?? ''
    const cells = safe || line.includes('"') ? cellsOfLine(line) : undefined
    const count = cells?.length ?? countCommas(line) + 1
    const text = safe ? cells?.map(cell => csvCell(guardCell(cell))).join(',') ?? '' : line
    return count < columns.length ? text + commas.slice(0, columns.length - count) : text
  }
}

function countCommas (line: string): number {
  let count = 0
  for (let at = line.indexOf(','); at !== -1; at = line.indexOf(',', at + 1)) count += 1
  return count
}

/**
 * Creates a writer of the customer's cells in a line, as a JSON object by column name. A blank or
 * repeated name is replaced by `column_` and its position.
 */
export function createOriginalJson (columns: readonly string[]): (line: string) => string {
  const keys = keysOf(columns).map(name => `${JSON.stringify(name)}:`)
  const blanks = keys.map(key => `${key}""`)
  return line => {
    const cells = cellsOfLine(line)
    const members = blanks.map((blank, at) => {
      const cell = cells[at]
      return cell === undefined || cell === '' ? blank : `${keys[at]}${JSON.stringify(cell)}`
    })
    return `{${members.join(',')}}`
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
  for (let from = 0; from <= line.length;) {
    const end = endOfCell(line, from)
    const text = line.slice(from, end)
    cells.push(text.startsWith('"') ? text.slice(1, -1).replaceAll('""', '"') : text)
    from = end + 1
  }
  return cells
}

/** Index of the comma after the cell that begins at `from`, or the length of the line. */
function endOfCell (line: string, from: number): number {
  let start = from
  if (line[from] === '"') {
    let quote = line.indexOf('"', from + 1)
    while (quote !== -1 && line[quote + 1] === '"') quote = line.indexOf('"', quote + 2)
    if (quote === -1) return line.length
    start = quote + 1
  }
  const comma = line.indexOf(',', start)
  return comma === -1 ? line.length : comma
}
