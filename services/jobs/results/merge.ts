import type { CompletedRows } from '../../../schemas/types.ts'
import type { ManifestEntry } from '../job.ts'
import { has } from '../../runtime/platform/bitmap.ts'
import type { StoredColumn } from './block.ts'
import { INPUT_COLUMNS } from './columns.ts'

/** A range of rows, with the manifest entries of its blocks. */
export type ChunkPlan = {
  /** -1 for rows that only a block of the whole job has. */
  readonly chunk: number
  /** Index, from 0, of its first row within the job. */
  readonly firstRow: number
  readonly rows: number
  readonly entries: readonly ManifestEntry[]
}

export type JobPlan = {
  /** In order, without gaps. */
  readonly chunks: readonly ChunkPlan[]
  /** Blocks of the whole job, which ended the open rows of a stalled job. */
  readonly jobWide: readonly ManifestEntry[]
}

/** A manifest entry with its decrypted block. */
export type OpenBlock = { readonly entry: ManifestEntry, readonly rows: CompletedRows }

/** The rows of a chunk, by index in it, before duplicates are filled in. */
export type MergedChunk = {
  readonly firstRow: number
  readonly rows: number
  /** One per row, or empty. */
  readonly inputs: readonly string[]
  readonly blocks: readonly CompletedRows[]
  /** The block that won each row, and the position of the row in it. */
  readonly blockOf: Int32Array
  readonly positionOf: Int32Array
  /** Row number, from 1, of the original of each duplicate; 0 for other rows. */
  readonly duplicateOf: Int32Array
  /** What the sender gave with these rows; undefined if no block of the chunk has it. */
  readonly contacts: Contacts | undefined
}

/** The rows of a chunk; `repeated` has the cells of duplicates, by index. */
export type ReadChunk = {
  readonly merged: MergedChunk
  readonly repeated: ReadonlyMap<number, readonly string[]>
}

/** One entry per row. */
export type Contacts = NonNullable<CompletedRows['contacts']>

/** The stored blocks do not form the results of the job: an operator must investigate. */
export class ResultsError extends Error {
  override readonly name: string = 'ResultsError'
}

type PlannedJob = { readonly id: string, readonly chunks: number, readonly totalRows: number }

/**
 * Plans which blocks are read for which rows. Needs the whole manifest, as a chunk ends where the
 * next one begins. Leaves out blocks that won no rows and hold no inputs.
 */
export function planJob (manifest: readonly ManifestEntry[], job: PlannedJob): JobPlan {
  const counting = manifest.filter(({ inputs, won }) => inputs || won.some(byte => byte !== 0))
  return {
    chunks: planChunks(counting, job), jobWide: counting.filter(({ chunk }) => chunk >= job.chunks),
  }
}

/**
 * The chunks of a job as far as these entries show them. One whose next chunk is not among them may
 * seem some rows longer, which no block has; rows between chunks have no inputs, and chunk -1.
 */
export function planChunks (
  manifest: readonly ManifestEntry[], { id, chunks, totalRows }: PlannedJob
): readonly ChunkPlan[] {
  const byChunk = [...Map.groupBy(
    manifest.filter(({ chunk }) => chunk < chunks), ({ chunk }) => chunk)]
    .sort(([a], [b]) => a - b)
  const plans: ChunkPlan[] = []
  const addGap = (from: number, to: number) => {
    if (from < to) plans.push({ chunk: -1, firstRow: from, rows: to - from, entries: [] })
  }
  let end = 0
  for (const [index, [chunk, entries]] of byChunk.entries()) {
    const { firstRow, won } = entries[0]!
    const following = byChunk[index + 1]?.[1][0]
    const next = following?.firstRow ?? totalRows
    if (next <= firstRow) {
      const limit = following === undefined
        ? `the job has ${totalRows} rows`
        : `chunk ${following.chunk} at row ${next + 1}`
      throw new ResultsError(
        `manifest of job ${id}: chunk ${chunk} starts at row ${firstRow + 1}, ${limit}`)
    }
    addGap(end, firstRow)
    end = Math.min(firstRow + won.length * 8, next)
    plans.push({ chunk, firstRow, rows: end - firstRow, entries })
  }
  addGap(end, totalRows)
  return plans
}

/**
 * Merges the blocks of a chunk: takes each row from the block that won it. Returns the positions of
 * cells only, as readers need them in different forms.
 * Throws ResultsError unless every row of the chunk comes exactly once.
 */
export function mergeChunk (
  job: string, plan: ChunkPlan, blocks: readonly OpenBlock[]
): MergedChunk {
  const merged = mergeBlocks(job, plan, blocks)
  const open = merged.blockOf.indexOf(NO_BLOCK)
  if (open < 0) return merged
  throw new ResultsError(`row ${plan.firstRow + open + 1} of job ${job} has no result`)
}

/**
 * The same for blocks that need not have all rows of the chunk; `cellsAt` of a row without a block
 * is empty. Throws ResultsError for a row that comes twice.
 */
export function mergeBlocks (
  job: string, plan: ChunkPlan, blocks: readonly OpenBlock[]
): MergedChunk {
  const { firstRow, rows } = plan
  const won = {
    blockOf: new Int32Array(rows).fill(NO_BLOCK),
    positionOf: new Int32Array(rows),
    duplicateOf: new Int32Array(rows),
  }
  for (const [number, block] of blocks.entries()) addWon(plan, block, { ...won, job, number })
  return {
    firstRow,
    rows,
    inputs: collectInputs(plan, blocks),
    blocks: blocks.map(block => block.rows),
    ...won,
    contacts: blocks.find(block => block.rows.contacts)?.rows.contacts ?? undefined,
  }
}

const NO_BLOCK = -1

type Won = Pick<MergedChunk, 'blockOf' | 'positionOf' | 'duplicateOf'> & {
  readonly job: string
  /** Index in `blocks`. */
  readonly number: number
}

/** Adds the rows that a block won in this chunk; a block of the whole job exceeds the chunk. */
function addWon (
  plan: ChunkPlan, { entry, rows }: OpenBlock,
  { blockOf, positionOf, duplicateOf, job, number }: Won
): void {
  const shift = entry.firstRow - plan.firstRow
  for (let position = 0; position < rows.rows.length; position++) {
    const inBlock = rows.rows[position] as number
    const index = inBlock + shift
    if (index < 0 || index >= plan.rows || !has(entry.won, inBlock)) continue
    if (blockOf[index] !== NO_BLOCK) {
      throw new ResultsError(`row ${plan.firstRow + index + 1} of job ${job} has two results`)
    }
    blockOf[index] = number
    positionOf[index] = position
    duplicateOf[index] = rows.duplicateOf[position] ?? 0
  }
}

/** Prefers inputs that are not blank: a block that replaced a lost one has blank inputs. */
function collectInputs (plan: ChunkPlan, blocks: readonly OpenBlock[]): readonly string[] {
  const lists = blocks.filter(({ entry }) => entry.inputs).map(({ rows }) => rows.inputs ?? [])
  const [only = []] = lists
  if (lists.length < 2) return only
  return Array.from({ length: plan.rows }, (_, index) =>
    lists.find(list => list[index] !== '')?.[index] ?? '')
}

/** What the sender gave with a row; '' if the block that held it is lost. */
export function referenceAt ({ contacts }: MergedChunk, index: number): string {
  return contacts?.references[index] ?? ''
}

/** Columns of a block in the order of the result file; undefined for a missing one. */
type BlockColumns = readonly (StoredColumn | undefined)[]

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
    const cells = columnsOfBlock(block).map(column => readCell(column, position))
    cells[columnAt.row] = String(firstRow + index + 1)
    cells[columnAt.input] = inputs[index] ?? ''
    putInputColumns(cells, columnAt)
    return cells
  }
}

/** Fills in the columns of INPUT_COLUMNS. */
function putInputColumns (cells: string[], columnAt: ReturnType<typeof columnPositions>): void {
  const { input, e164, ofInput } = columnAt
  for (const [at, read] of ofInput) cells[at] = read(cells[input] ?? '', cells[e164] ?? '')
}

/** Creates a reader of the number of a row that is no duplicate. */
export function createNumberReader (): (chunk: MergedChunk, index: number) => string {
  const readNumbers = oncePerBlock(rows => columnsIn(rows, ['e164'])[0])
  return ({ blocks, blockOf, positionOf }, index) => {
    const block = blocks[blockOf[index] ?? -1]
    return block === undefined ? '' : readCell(readNumbers(block), positionOf[index] ?? 0)
  }
}

/**
 * Creates a function that fills in a duplicate: the verdict of its original, its own input and its
 * own spelling of an e-mail address or columns of the input of a phone number.
 */
export function createRepeater (
  columns: readonly string[]
): (chunk: MergedChunk, index: number, original: readonly string[]) => string[] {
  const columnAt = columnPositions(columns)
  const readEmails = oncePerBlock(rows => columnsIn(rows, ['email'])[0])
  return ({ firstRow, inputs, blocks, blockOf, positionOf }, index, original) => {
    const cells = [...original]
    const block = blocks[blockOf[index] ?? -1]
    const email = block && readCell(readEmails(block), positionOf[index] ?? 0)
    if (email) cells[columnAt.email] = email
    cells[columnAt.row] = String(firstRow + index + 1)
    cells[columnAt.input] = inputs[index] ?? ''
    cells[columnAt.source] = 'duplicate'
    cells[columnAt.duplicateOf] = original[columnAt.row] ?? ''
    putInputColumns(cells, columnAt)
    return cells
  }
}

function readCell (column: StoredColumn | undefined, position: number): string {
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
    e164: at('e164'),
    ofInput: columns.flatMap((name, position) => {
      const read = INPUT_COLUMNS[name]
      return read === undefined ? [] : [[position, read] as const]
    }),
  }
}
