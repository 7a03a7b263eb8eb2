import type { CompletedRows } from '../../schemas/types.ts'
import type { StoredColumn } from './dictionary-columns.ts'
import type { MergedChunk } from './merge.ts'

/** Columns of a block in the order of the result file; undefined for one that it does not have. */
export type BlockColumns = readonly (StoredColumn | undefined)[]

/** Reads one row of a chunk: its cells in the order of the columns. */
export type CellReader = (chunk: MergedChunk, index: number) => string[]

/** Does something for each block once: a block of a whole job is read for many chunks. */
export function oncePerBlock<T> (
  make: (rows: CompletedRows) => T
): (rows: CompletedRows) => T {
  const made = new WeakMap<CompletedRows, T>()
  return rows => {
    const before = made.get(rows)
    if (before !== undefined) return before
    const now = make(rows)
    made.set(rows, now)
    return now
  }
}

/** The columns of a block by these names. */
export function columnsIn (rows: CompletedRows, names: readonly string[]): BlockColumns {
  return names.map(name => rows.columns.find(column => column.name === name))
}

/**
 * Makes cells of rows, whatever block each is of. Cells are blank where a block has no such column,
 * the input where no block brought it. A duplicate is blank as well, until it repeats its original.
 */
export function createCellReader (columns: readonly string[]): CellReader {
  const columnsOfBlock = oncePerBlock(rows => columnsIn(rows, columns))
  const places = placesOf(columns)
  return ({ firstRow, inputs, blocks, blockOf, positionOf }, index) => {
    const block = blocks[blockOf[index] ?? -1]
    if (block === undefined) return []
    const position = positionOf[index] ?? 0
    const cells = columnsOfBlock(block).map(column => cellOf(column, position))
    cells[places.row] = String(firstRow + index + 1)
    cells[places.input] = inputs[index] ?? ''
    return cells
  }
}

/**
 * The row of a chunk at this index as a duplicate: its original's verdict, its own input and its
 * own spelling of an e-mail address.
 */
export function createRepeater (
  columns: readonly string[]
): (chunk: MergedChunk, index: number, original: readonly string[]) => string[] {
  const places = placesOf(columns)
  const emailsOf = oncePerBlock(rows => columnsIn(rows, ['email'])[0])
  return ({ firstRow, inputs, blocks, blockOf, positionOf }, index, original) => {
    const cells = [...original]
    const block = blocks[blockOf[index] ?? -1]
    const email = block && cellOf(emailsOf(block), positionOf[index] ?? 0)
    if (email) cells[places.email] = email
    cells[places.row] = String(firstRow + index + 1)
    cells[places.input] = inputs[index] ?? ''
    cells[places.source] = 'duplicate'
    cells[places.duplicateOf] = original[places.row] ?? ''
    return cells
  }
}

function cellOf (column: StoredColumn | undefined, position: number): string {
  if (column === undefined) return ''
  const { values, at } = column
  return values[at.length === 0 ? position : at[position] ?? -1] ?? ''
}

function placesOf (columns: readonly string[]) {
  const at = (name: string) => columns.indexOf(name)
  return {
    row: at('row'),
    input: at('input'),
    source: at('source'),
    duplicateOf: at('duplicate_of'),
    email: at('email'),
  }
}
