import { guardCell } from '../../../schemas/files/csv-format.ts'
import type { CompletedRows } from '../../../schemas/types.ts'
import type { StoredColumn } from './dictionary-columns.ts'
import { csvCell, CsvWriter } from './csv.ts'
import { type MergedChunk, columnsIn, createExtensionReader, oncePerBlock } from './merge.ts'
import { createOriginalCsv, type Original } from './original.ts'

/** A column with one value per row. */
type Values = { readonly kind: 'values', readonly values: readonly string[] }

/** Adjacent dictionary columns: their distinct joined texts, and the index of each row's text. */
type JoinedColumns = {
  readonly kind: 'joined'
  readonly texts: readonly Buffer[]
  readonly at: Int32Array
}

type Segment = Values | JoinedColumns

/** A column of few distinct values: its encoded cells, and the index of each row's cell. */
type DictionaryColumn = { readonly cells: readonly string[], readonly at: readonly number[] }

type Encode = (text: string) => string

/** Lines of some rows of a chunk, and the index of the first row after them. */
export type CsvPiece = { readonly lines: Buffer, readonly nextRow: number }

/**
 * Encodes rows of a chunk as CSV lines, from the row with index `from` until a piece is full;
 * `repeated` has the cells of duplicates.
 */
export type ChunkCsv =
  (chunk: MergedChunk, repeated: ReadonlyMap<number, readonly string[]>, from: number) => CsvPiece

type ChunkCsvOptions = { readonly safe: boolean, readonly original?: Original | undefined }

const FIRST_SIZE_BYTES = 65_536
/** Few milliseconds of work; a piece exceeds it by less than a line. */
export const PIECE_BYTES = 262_144
const SPARE_BYTES = 16_384

/**
 * Creates an encoder of chunks, equal to `csvLine` of the cells of each row. Cells mostly repeat,
 * so adjacent columns of few distinct values are joined once for all rows that agree in them: a row
 * is then a handful of texts instead of one per column. `columns` begin with row and input, and the
 * cells of duplicates begin with those of the columns; `safe` guards cells that a spreadsheet would
 * run; `original` replaces row and input.
 */
export function createChunkCsv (
  columns: readonly string[], { safe, original }: ChunkCsvOptions
): ChunkCsv {
  const begin = original === undefined ? writeRowAndInput : createOriginalWriter(original)
  // Not stored, and always the last column.
  const extensionAt = columns.at(-1) === 'extension' ? createExtensionReader() : undefined
  const names = columns.slice(2, extensionAt && -1)
  const encode = safe ? (text: string) => csvCell(guardCell(text)) : csvCell
  const segmentsOf = oncePerBlock(rows => segmentsIn(rows, names, encode))
  let sizeBytes = FIRST_SIZE_BYTES
  return (chunk, repeated, from) => {
    const writer = new CsvWriter({ safe, sizeBytes })
    const segments = chunk.blocks.map(segmentsOf)
    let index = from
    for (; index < chunk.rows && writer.length < PIECE_BYTES; index++) {
      begin(writer, chunk, index)
      const cells = repeated.get(index)
      if (cells === undefined) {
        const position = chunk.positionOf[index] ?? 0
        writeSegments(writer, segments[chunk.blockOf[index] ?? 0] ?? [], position)
        if (extensionAt !== undefined) writeCells(writer, [extensionAt(chunk, index)])
      } else writeCells(writer, cells.slice(2, columns.length))
      writer.endLine()
    }
    const lines = writer.bytes()
    // Pieces of a job have similar sizes, so the next buffer rarely has to grow.
    sizeBytes = Math.max(sizeBytes, lines.length + SPARE_BYTES)
    return { lines, nextRow: index }
  }
}

/** Writes the first cells of a line. */
type Begin = (writer: CsvWriter, chunk: MergedChunk, index: number) => void

const writeRowAndInput: Begin = (writer, { firstRow, inputs }, index) => {
  writer.cell(String(firstRow + index + 1))
  writer.comma()
  writer.cell(inputs[index] ?? '')
}

/** Writes the customer's part of a line. */
export function createOriginalWriter (original: Original): Begin {
  const csvOf = createOriginalCsv(original)
  return (writer, chunk, index) => writer.cells(Buffer.from(csvOf(chunk, index)))
}

function writeSegments (
  writer: CsvWriter, segments: readonly Segment[], position: number
): void {
  for (const segment of segments) {
    writer.comma()
    if (segment.kind === 'values') writer.cell(segment.values[position] ?? '')
    else writer.cells(segment.texts[segment.at[position] ?? 0] as Buffer)
  }
}

function writeCells (writer: CsvWriter, cells: readonly string[]): void {
  for (const cell of cells) {
    writer.comma()
    writer.cell(cell)
  }
}

function segmentsIn (
  rows: CompletedRows, names: readonly string[], encode: Encode
): readonly Segment[] {
  const segments: Segment[] = []
  let dictionaries: DictionaryColumn[] = []
  const flush = () => {
    if (dictionaries.length > 0) segments.push(joinColumns(dictionaries, rows.rows.length))
    dictionaries = []
  }
  for (const column of columnsIn(rows, names)) {
    const next = dictionaryOf(column, encode)
    if (next !== undefined) dictionaries.push(next)
    else {
      flush()
      segments.push({ kind: 'values', values: column?.values ?? [] })
    }
  }
  flush()
  return segments
}

/** Undefined for a column with one value per row; a missing column is blank. */
function dictionaryOf (
  column: StoredColumn | undefined, encode: Encode
): DictionaryColumn | undefined {
  if (column === undefined) return { cells: [''], at: [] }
  return column.at.length === 0 ? undefined : { cells: column.values.map(encode), at: column.at }
}

/** Numbers rows column by column: rows with one number agree in all columns so far. */
function joinColumns (dictionaries: readonly DictionaryColumn[], rows: number): JoinedColumns {
  const numbers = new Int32Array(rows)
  let firstRows = [0]
  for (const { cells, at } of dictionaries) {
    if (cells.length === 1) continue
    const found: number[] = []
    const known = new Int32Array(firstRows.length * cells.length)
    for (let row = 0; row < rows; row++) {
      const pair = (numbers[row] ?? 0) * cells.length + (at[row] ?? 0)
      // Counted from 1, as 0 stands for none yet.
      const number = known[pair] || found.push(row)
      known[pair] = number
      numbers[row] = number - 1
    }
    firstRows = found
  }
  const texts = firstRows.map(row =>
    Buffer.from(dictionaries.map(({ cells, at }) => cells[at[row] ?? 0]).join(',')))
  return { kind: 'joined', texts, at: numbers }
}
