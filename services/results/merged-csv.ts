import type { CompletedRows } from '../../schemas/types.ts'
import type { StoredColumn } from './dictionary-columns.ts'
import { csvCell, guardCell } from './csv.ts'
import { CsvWriter } from './csv-writer.ts'
import type { MergedChunk } from './merge.ts'
import { columnsIn, oncePerBlock } from './merged-cells.ts'

/** A column of one value a row. */
type Values = { readonly kind: 'values', readonly values: readonly string[] }

/** Neighbouring columns: what they can hold together, as it is written, and what each row has. */
type Texts = { readonly kind: 'texts', readonly texts: readonly Buffer[], readonly at: Int32Array }

/** A column of few values: its cells as they are written, and which of them each row has. */
type Few = { readonly cells: readonly string[], readonly at: readonly number[] }

type Form = (text: string) => string

/** Makes the lines of a chunk; `repeated` has the cells of the rows that are duplicates. */
export type ChunkCsv =
  (chunk: MergedChunk, repeated: ReadonlyMap<number, readonly string[]>) => Buffer

const FIRST_SIZE_BYTES = 65_536
const SPARE_BYTES = 16_384

/**
 * Writes the rows of a chunk as CSV, the same as `csvLine` of the cells of each. Cells mostly
 * repeat, so neighbouring columns of few values are put together once for all rows that agree in
 * them: a row is then a handful of texts instead of one a column. `columns` begin with row and
 * input, as those of every result file do; `safe` guards cells that a spreadsheet would run.
 */
export function createChunkCsv (
  columns: readonly string[], { safe }: { readonly safe: boolean }
): ChunkCsv {
  const names = columns.slice(2)
  const form = safe ? (text: string) => csvCell(guardCell(text)) : csvCell
  const segmentsOf = oncePerBlock(rows => segmentsIn(rows, names, form))
  let sizeBytes = FIRST_SIZE_BYTES
  return (chunk, repeated) => {
    const writer = new CsvWriter({ safe, sizeBytes })
    const segments = chunk.blocks.map(segmentsOf)
    for (let index = 0; index < chunk.rows; index++) {
      const cells = repeated.get(index)
      if (cells === undefined) {
        writeRow(writer, chunk, { index, segments: segments[chunk.blockOf[index] ?? 0] ?? [] })
      } else writeCells(writer, cells)
      writer.endLine()
    }
    const piece = writer.piece()
    // Chunks of a job are much the same, so the next one hardly ever has to grow.
    sizeBytes = Math.max(sizeBytes, piece.length + SPARE_BYTES)
    return piece
  }
}

function writeRow (
  writer: CsvWriter, { firstRow, inputs, positionOf }: MergedChunk,
  { index, segments }: { readonly index: number, readonly segments: readonly (Values | Texts)[] }
): void {
  writer.cell(String(firstRow + index + 1))
  writer.comma()
  writer.cell(inputs[index] ?? '')
  const position = positionOf[index] ?? 0
  for (const segment of segments) {
    writer.comma()
    if (segment.kind === 'values') writer.cell(segment.values[position] ?? '')
    else writer.cells(segment.texts[segment.at[position] ?? 0] as Buffer)
  }
}

function writeCells (writer: CsvWriter, cells: readonly string[]): void {
  for (let at = 0; at < cells.length; at++) {
    if (at > 0) writer.comma()
    writer.cell(cells[at] ?? '')
  }
}

function segmentsIn (
  rows: CompletedRows, names: readonly string[], form: Form
): readonly (Values | Texts)[] {
  const segments: (Values | Texts)[] = []
  let few: Few[] = []
  const endFew = () => {
    if (few.length > 0) segments.push(joined(few, rows.rows.length))
    few = []
  }
  for (const column of columnsIn(rows, names)) {
    const next = fewOf(column, form)
    if (next !== undefined) few.push(next)
    else {
      endFew()
      segments.push({ kind: 'values', values: column?.values ?? [] })
    }
  }
  endFew()
  return segments
}

/** Undefined for a column of one value a row; one that the block does not have is all blank. */
function fewOf (column: StoredColumn | undefined, form: Form): Few | undefined {
  if (column === undefined) return { cells: [''], at: [] }
  return column.at.length === 0 ? undefined : { cells: column.values.map(form), at: column.at }
}

/** Numbers the rows column by column, so that those of one number agree in all columns so far. */
function joined (few: readonly Few[], rows: number): Texts {
  const numbers = new Int32Array(rows)
  let firstRows = [0]
  for (const { cells, at } of few) {
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
    Buffer.from(few.map(({ cells, at }) => cells[at[row] ?? 0]).join(',')))
  return { kind: 'texts', texts, at: numbers }
}
