import type { CompletedRows } from '../../schemas/types.ts'
import type { StoredColumn } from './dictionary-columns.ts'
import type { MergedChunk } from './merge.ts'

/** Columns of a block in the order of the result file; undefined for a missing one. */
export type BlockColumns = readonly (StoredColumn | undefined)[]

/** Reads one row of a chunk: its cells in the order of the columns. */
export type CellReader = (chunk: MergedChunk, index: number) => string[]

/** Memoizes a function of a block, as a block of the whole job is read for many chunks. */
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

/** The columns of a block with these names. */
export function columnsIn (rows: CompletedRows, names: readonly string[]): BlockColumns {
  return names.map(name => rows.columns.find(column => column.name === name))
}

/**
 * Creates a reader of the cells of a row. Cells are blank if the block lacks the column, and so is
 * the input if no block has it. A duplicate is blank as well, until its original is copied.
 */
export function createCellReader (columns: readonly string[]): CellReader {
  const columnsOfBlock = oncePerBlock(rows => columnsIn(rows, columns))
  const columnAt = columnPositions(columns)
  return ({ firstRow, inputs, blocks, blockOf, positionOf }, index) => {
    const block = blocks[blockOf[index] ?? -1]
    if (block === undefined) return []
    const position = positionOf[index] ?? 0
    const cells = columnsOfBlock(block).map(column => cellOf(column, position))
    cells[columnAt.row] = String(firstRow + index + 1)
    cells[columnAt.input] = inputs[index] ?? ''
    return cells
  }
}

/**
 * Creates a function that fills in a duplicate: the verdict of its original, its own input and its
 * own spelling of an e-mail address.
 */
export function createRepeater (
  columns: readonly string[]
): (chunk: MergedChunk, index: number, original: readonly string[]) => string[] {
  const columnAt = columnPositions(columns)
  const emailsOf = oncePerBlock(rows => columnsIn(rows, ['email'])[0])
  return ({ firstRow, inputs, blocks, blockOf, positionOf }, index, original) => {
    const cells = [...original]
    const block = blocks[blockOf[index] ?? -1]
    const email = block && cellOf(emailsOf(block), positionOf[index] ?? 0)
    if (email) cells[columnAt.email] = email
    cells[columnAt.row] = String(firstRow + index + 1)
    cells[columnAt.input] = inputs[index] ?? ''
    cells[columnAt.source] = 'duplicate'
    cells[columnAt.duplicateOf] = original[columnAt.row] ?? ''
    return cells
  }
}

function cellOf (column: StoredColumn | undefined, position: number): string {
  if (column === undefined) return ''
  const { values, at } = column
  return values[at.length === 0 ? position : at[position] ?? -1] ?? ''
}

function columnPositions (columns: readonly string[]) {
  const at = (name: string) => columns.indexOf(name)
  return {
    row: at('row'),
    input: at('input'),
    source: at('source'),
    duplicateOf: at('duplicate_of'),
    email: at('email'),
  }
}
