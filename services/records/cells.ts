import type { FinishedRows } from '../../schemas/types.ts'

/** A result column as blocks store it. */
export type StoredColumn = FinishedRows['columns'][number]

/** Cells by column, gathered row by row. */
export type Cells = {
  /** Sets a cell of the row at hand; a name that is none of the columns is dropped. */
  readonly put: (name: string, value: string) => void
  /** The row at hand is complete. */
  readonly endRow: () => void
  /** Every column that is not blank in all rows, in the order of the names. */
  readonly filled: () => readonly StoredColumn[]
}

/** A column of more different values than this is stored value by value. */
const FEW = 64

/**
 * Builds columns at once, as an object a row would cost more than all the rest of a block. Cells
 * mostly repeat: a column of few values stores each of them once, and a number a row.
 */
export function createCells (names: readonly string[]): Cells {
  const columns = new Map(names.map((name) => [name, createColumn()]))
  let row = 0
  return {
    put: (name, value) => columns.get(name)?.put(row, value),
    endRow: () => { row++ },
    filled: () => [...columns].flatMap(([name, column]) => {
      const stored = column.stored(row)
      return stored === undefined ? [] : [{ name, ...stored }]
    }),
  }
}

/** One value a row, whichever way the column stores them. */
export function cellsOf ({ values, at }: StoredColumn): readonly string[] {
  return at.length === 0 ? values : at.map((index) => values[index] ?? '')
}

/** Rows come in ascending order; those left out are blank. */
function createColumn () {
  let values: string[] = []
  let indexes: Map<string, number> | undefined = new Map()
  let at: number[] = []
  const indexOf = (value: string, known: Map<string, number>): number => {
    const before = at.at(-1)
    if (before !== undefined && values[before] === value) return before
    const found = known.get(value)
    if (found !== undefined) return found
    known.set(value, values.length)
    return values.push(value) - 1
  }
  /** Makes room for the rows before this one. */
  const reach = (row: number) => {
    if (indexes === undefined) while (values.length < row) values.push('')
    else if (at.length < row) at = padded(at, row, indexOf('', indexes))
  }
  const put = (row: number, value: string) => {
    if (value === '' && values.length === 0) return
    reach(row)
    if (indexes === undefined) values[row] = value
    else at[row] = indexOf(value, indexes)
    if (indexes === undefined || values.length <= FEW) return
    values = at.map((index) => values[index] ?? '')
    indexes = undefined
    at = []
  }
  const stored = (rows: number) => {
    if (values.length === 0) return undefined
    reach(rows)
    return { values, at }
  }
  return { put, stored }
}

function padded (numbers: number[], length: number, filler: number): number[] {
  while (numbers.length < length) numbers.push(filler)
  return numbers
}

/** ISO 8601 in UTC with milliseconds; the rows of a block mostly share one time, written once. */
export function createIsoTimes (): (unixMs: number) => string {
  let lastMs = NaN
  let lastText = ''
  return (unixMs) => {
    if (unixMs !== lastMs) {
      lastText = new Date(unixMs).toISOString()
      lastMs = unixMs
    }
    return lastText
  }
}
