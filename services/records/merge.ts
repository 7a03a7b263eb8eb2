import type { FinishedRows } from '../../schemas/types.ts'
import type { ManifestEntry } from '../jobs/job.ts'
import { emptyBitmap, has, set } from '../lib/bitmap.ts'
import { cellsOf } from './cells.ts'

/** Rows that are read together, with the blocks of their chunk that count. */
export type ChunkPlan = {
  /** -1 for rows of which only a block of the whole job is left. */
  readonly chunk: number
  /** Index, from 0, of its first row within the job. */
  readonly firstRow: number
  readonly rows: number
  readonly entries: readonly ManifestEntry[]
}

export type JobPlan = {
  /** In order, without gaps. */
  readonly chunks: readonly ChunkPlan[]
  /** Blocks that gave the open rows of a stalled job, whatever chunk they are of. */
  readonly jobWide: readonly ManifestEntry[]
}

/** A block that counts, opened. */
export type OpenBlock = { readonly entry: ManifestEntry, readonly rows: FinishedRows }

/** The rows of a chunk, before duplicates repeat their originals. */
export type MergedChunk = {
  readonly firstRow: number
  /** Cells in the order of the columns, one array a row. */
  readonly cells: readonly string[][]
  /** Row number, from 1, of each row's original; 0 for a row that is none. */
  readonly duplicateOf: readonly number[]
  /** Which contacts of a feed the rows are; undefined when no block of the chunk says. */
  readonly contacts: Contacts | undefined
}

/** One entry a row. */
export type Contacts = NonNullable<FinishedRows['contacts']>

/** What is stored does not make up the job's results: an operator has to look. */
export class ResultsError extends Error {
  override readonly name: string = 'ResultsError'
}

/**
 * Which blocks are read for which rows. A chunk ends where the next one begins, so the whole
 * manifest has to be given. Blocks that won nothing and hold no inputs are left out.
 */
export function planJob (
  manifest: readonly ManifestEntry[], job: { readonly chunks: number, readonly totalRows: number }
): JobPlan {
  const counting = manifest.filter(({ inputs, won }) => inputs || won.some(byte => byte !== 0))
  const jobWide = counting.filter(({ chunk }) => chunk >= job.chunks)
  const starts = startsOf(manifest.filter(({ chunk }) => chunk < job.chunks))
  const byChunk = Map.groupBy(counting, ({ chunk }) => chunk)
  const chunks = starts.map(({ chunk, firstRow }, index) => {
    const rows = (starts[index + 1]?.firstRow ?? job.totalRows) - firstRow
    if (rows <= 0) throw new ResultsError(`chunk ${chunk} begins at or behind the next one`)
    return { chunk, firstRow, rows, entries: byChunk.get(chunk) ?? [] }
  })
  return { chunks, jobWide }
}

/**
 * Puts the rows of a chunk together: each from the block that won it, whatever else the blocks
 * hold. Cells are blank where a block has no such column, inputs where no block brought them.
 * Throws ResultsError unless every row of the chunk comes exactly once.
 */
export function mergeChunk (
  plan: ChunkPlan, blocks: readonly OpenBlock[], columns: readonly string[]
): MergedChunk {
  const inputs = inputsOf(plan, blocks)
  const cells = new Array<string[]>(plan.rows)
  const duplicateOf = new Array<number>(plan.rows).fill(0)
  const filled = emptyBitmap(plan.rows)
  for (const block of blocks) {
    const values = valuesOf(block.rows, columns)
    for (const { index, position } of wonRows(plan, block)) {
      if (has(filled, index)) throw new ResultsError(`row ${rowNumber(plan, index)} came twice`)
      set(filled, index)
      cells[index] = values.map(column => column?.[position] ?? '')
      duplicateOf[index] = block.rows.duplicateOf[position] ?? 0
    }
  }
  const own = placesOf(columns)
  for (let index = 0; index < plan.rows; index++) {
    const row = cells[index]
    if (row === undefined) throw new ResultsError(`row ${rowNumber(plan, index)} has no result`)
    row[own.row] = String(rowNumber(plan, index))
    row[own.input] = inputs[index] ?? ''
  }
  const contacts = blocks.find(({ rows }) => rows.contacts)?.rows.contacts ?? undefined
  return { firstRow: plan.firstRow, cells, duplicateOf, contacts }
}

/** A duplicate's row: its original's verdict, with the row's own number and input. */
export function repeatOriginal (
  own: readonly string[], original: readonly string[], columns: readonly string[]
): string[] {
  const places = placesOf(columns)
  const cells = [...original]
  cells[places.row] = own[places.row] ?? ''
  cells[places.input] = own[places.input] ?? ''
  cells[places.source] = 'duplicate'
  cells[places.duplicateOf] = original[places.row] ?? ''
  return cells
}

function startsOf (
  entries: readonly ManifestEntry[]
): readonly { readonly chunk: number, readonly firstRow: number }[] {
  const byChunk = new Map(entries.map(({ chunk, firstRow }) => [chunk, firstRow]))
  const starts = [...byChunk].map(([chunk, firstRow]) => ({ chunk, firstRow }))
    .sort((a, b) => a.chunk - b.chunk)
  return starts[0]?.firstRow === 0 ? starts : [{ chunk: -1, firstRow: 0 }, ...starts]
}

/** A block that only stood in for a lost one holds blank inputs; any other block knows better. */
function inputsOf (plan: ChunkPlan, blocks: readonly OpenBlock[]): readonly string[] {
  const lists = blocks.filter(({ entry }) => entry.inputs).map(({ rows }) => rows.inputs ?? [])
  const [only = []] = lists
  if (lists.length < 2) return only
  return Array.from({ length: plan.rows }, (_, index) =>
    lists.find(list => list[index] !== '')?.[index] ?? '')
}

/** Rows a block won in this chunk; a block of the whole job reaches beyond it on both sides. */
function * wonRows (plan: ChunkPlan, { entry, rows }: OpenBlock) {
  const shift = entry.firstRow - plan.firstRow
  for (let position = 0; position < rows.rows.length; position++) {
    const inBlock = rows.rows[position] as number
    const index = inBlock + shift
    if (index >= 0 && index < plan.rows && has(entry.won, inBlock)) yield { index, position }
  }
}

function valuesOf (rows: FinishedRows, columns: readonly string[]) {
  const byName = new Map(rows.columns.map(column => [column.name, cellsOf(column)]))
  return columns.map(name => byName.get(name))
}

function placesOf (columns: readonly string[]) {
  const [row, input, source, duplicateOf] = ['row', 'input', 'source', 'duplicate_of']
    .map(name => columns.indexOf(name)) as [number, number, number, number]
  return { row, input, source, duplicateOf }
}

function rowNumber (plan: ChunkPlan, index: number): number {
  return plan.firstRow + index + 1
}
