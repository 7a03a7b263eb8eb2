import type { CompletedRows } from '../../schemas/types.ts'

/** A result column as blocks store it. */
export type StoredColumn = CompletedRows['columns'][number]

/** Cells by column, gathered row by row. */
export type DictionaryColumns = {
  /** Sets a cell of the row at hand; a name that is none of the columns is dropped. */
  readonly put: (name: string, value: string) => void
  /**
   * Sets the cells of the row at hand that were not put, or put blank. Rows of the very same
   * object cost the least: of them nothing but its number is written down.
   */
  readonly share: (cells: SharedCells) => void
  /** The row at hand is complete. */
  readonly endRow: () => void
  /** Every column that is not blank in all rows, in the order of the names. */
  readonly filled: () => readonly StoredColumn[]
}

export type SharedCells = Readonly<Record<string, string>>

type Stored = Omit<StoredColumn, 'name'>

/** A column of more different values than this is stored value by value. */
const FEW = 64

/**
 * Builds columns at once, as an object a row would cost more than all the rest of a block. Cells
 * mostly repeat: a column of few values stores each of them once, and a number a row.
 */
export function createDictionaryColumns (names: readonly string[]): DictionaryColumns {
  const columns = new Map(names.map((name) => [name, createColumn()]))
  const shared = createShared()
  let row = 0
  return {
    put: (name, value) => columns.get(name)?.put(row, value),
    share: shared.add,
    endRow: () => { shared.reach(++row) },
    filled: () => [...columns].flatMap(([name, column]) => {
      const stored = laidOver(column.stored(row), shared.stored(name))
      return stored === undefined ? [] : [{ name, ...stored }]
    }),
  }
}

/** What was put into a column, over what its rows share. */
function laidOver (own: Stored | undefined, shared: Stored | undefined): Stored | undefined {
  if (own === undefined || shared === undefined) return own ?? shared
  const values = cellsOf(own)
  const column = createColumn()
  const cells = cellsOf(shared).map((cell, row) => values[row] || cell)
  for (const [row, cell] of cells.entries()) column.put(row, cell)
  return column.stored(cells.length)
}

/** One value a row, whichever way the column stores them. */
export function cellsOf ({ values, at }: Stored): readonly string[] {
  return at.length === 0 ? values : at.map((index) => values[index] ?? '')
}

const NOTHING: SharedCells = {}

/** Which cells each row shares with others. */
function createShared () {
  const numbers = new Map<SharedCells, number>()
  const rows: number[] = []
  const add = (cells: SharedCells): void => {
    const number = numbers.get(cells) ?? numbers.size
    numbers.set(cells, number)
    rows.push(number)
  }
  /** The rows so far that share nothing are told by then. */
  const reach = (row: number): void => { if (rows.length < row) add(NOTHING) }
  /** Where the value of a column stands that has only one: the same list for all such columns. */
  let zeros: readonly number[] = []
  const zerosOf = (length: number): readonly number[] => {
    if (zeros.length !== length) zeros = new Array<number>(length).fill(0)
    return zeros
  }
  const stored = (name: string): Stored | undefined => {
    const texts = [...numbers.keys()].map((cells) => cells[name] ?? '')
    const values = [...new Set(texts)]
    if (values.every((value) => value === '')) return undefined
    if (values.length > FEW) return { values: rows.map((number) => texts[number] ?? ''), at: [] }
    if (values.length === 1) return { values, at: zerosOf(rows.length) }
    const indexOf = new Map(values.map((value, index) => [value, index]))
    const indexes = texts.map((text) => indexOf.get(text) ?? 0)
    return { values, at: rows.map((number) => indexes[number] ?? 0) }
  }
  return { add, reach, stored }
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
  const stored = (rows: number): Stored | undefined => {
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
