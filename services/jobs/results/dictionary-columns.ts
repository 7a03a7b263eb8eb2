import type { CompletedRows } from '../../../schemas/types.ts'

/** A result column as blocks store it. */
export type StoredColumn = CompletedRows['columns'][number]

/** Builds columns row by row. */
export type DictionaryColumns = {
  /** Sets a cell of the current row; ignores a name that is not a column. */
  readonly put: (name: string, value: string) => void
  /**
   * Sets the cells of the current row that are not put, or put blank. Cheap if rows share the same
   * object, as only its number is stored per row.
   */
  readonly share: (cells: SharedCells) => void
  /** Completes the current row. */
  readonly endRow: () => void
  /** The columns that are not blank in all rows, in the order of the names. */
  readonly filled: () => readonly StoredColumn[]
}

export type SharedCells = Readonly<Record<string, string>>

type Stored = Omit<StoredColumn, 'name'>

/** A column with more distinct values is stored as one value per row. */
const MAX_DICTIONARY_VALUES = 64

/**
 * Builds columns directly, as one object per row would cost more than the rest of a block. Cells
 * mostly repeat, so a column of few distinct values stores each once, and an index per row.
 */
export function createDictionaryColumns (names: readonly string[]): DictionaryColumns {
  const columns = new Map(names.map((name) => [name, createColumn()]))
  const shared = createShared()
  let row = 0
  return {
    put: (name, value) => columns.get(name)?.put(row, value),
    share: shared.add,
    endRow: () => { shared.padTo(++row) },
    filled: () => [...columns].flatMap(([name, column]) => {
      const stored = overlay(column.stored(row), shared.stored(name))
      return stored === undefined ? [] : [{ name, ...stored }]
    }),
  }
}

/** Overlays the cells put into a column on its shared cells. */
function overlay (own: Stored | undefined, shared: Stored | undefined): Stored | undefined {
  if (own === undefined || shared === undefined) return own ?? shared
  const values = cellsOf(own)
  const column = createColumn()
  const cells = cellsOf(shared).map((cell, row) => values[row] || cell)
  for (const [row, cell] of cells.entries()) column.put(row, cell)
  return column.stored(cells.length)
}

/** The values of a stored column, one per row. */
export function cellsOf ({ values, at }: Stored): readonly string[] {
  return at.length === 0 ? values : at.map((index) => values[index] ?? '')
}

const NO_CELLS: SharedCells = {}

/** Collects the shared cells of each row. */
function createShared () {
  const numbers = new Map<SharedCells, number>()
  const rows: number[] = []
  const add = (cells: SharedCells): void => {
    const number = numbers.get(cells) ?? numbers.size
    numbers.set(cells, number)
    rows.push(number)
  }
  /** Adds empty cells for a row that shares none. */
  const padTo = (row: number): void => { if (rows.length < row) add(NO_CELLS) }
  /** The indexes of a column with a single value: one list for all such columns. */
  let zeros: readonly number[] = []
  const zerosOf = (length: number): readonly number[] => {
    if (zeros.length !== length) zeros = new Array<number>(length).fill(0)
    return zeros
  }
  const stored = (name: string): Stored | undefined => {
    const texts = [...numbers.keys()].map((cells) => cells[name] ?? '')
    const values = [...new Set(texts)]
    if (values.every((value) => value === '')) return undefined
    if (values.length > MAX_DICTIONARY_VALUES) {
      return { values: rows.map((number) => texts[number] ?? ''), at: [] }
    }
    if (values.length === 1) return { values, at: zerosOf(rows.length) }
    const indexOf = new Map(values.map((value, index) => [value, index]))
    const indexes = texts.map((text) => indexOf.get(text) ?? 0)
    return { values, at: rows.map((number) => indexes[number] ?? 0) }
  }
  return { add, padTo, stored }
}

/** Creates a column; rows come in ascending order, and skipped ones are blank. */
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
  /** Adds blank cells for skipped rows. */
  const padTo = (row: number) => {
    if (indexes === undefined) while (values.length < row) values.push('')
    else if (at.length < row) at = padded(at, row, indexOf('', indexes))
  }
  const put = (row: number, value: string) => {
    if (value === '' && values.length === 0) return
    padTo(row)
    if (indexes === undefined) values[row] = value
    else at[row] = indexOf(value, indexes)
    if (indexes === undefined || values.length <= MAX_DICTIONARY_VALUES) return
    values = at.map((index) => values[index] ?? '')
    indexes = undefined
    at = []
  }
  const stored = (rows: number): Stored | undefined => {
    if (values.length === 0) return undefined
    padTo(rows)
    return { values, at }
  }
  return { put, stored }
}

function padded (numbers: number[], length: number, filler: number): number[] {
  while (numbers.length < length) numbers.push(filler)
  return numbers
}

/** Formats ISO 8601 in UTC with milliseconds; reuses the last text, as rows mostly share a time. */
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
