import type { CompletedRows } from '../../schemas/types.ts'
import type { ManifestEntry } from '../jobs/job.ts'
import { has } from '../platform/bitmap.ts'

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
export type OpenBlock = { readonly entry: ManifestEntry, readonly rows: CompletedRows }

/** The rows of a chunk, before duplicates repeat their originals; rows by their index in it. */
export type MergedChunk = {
  readonly firstRow: number
  readonly rows: number
  /** One a row, or none at all. */
  readonly inputs: readonly string[]
  readonly blocks: readonly CompletedRows[]
  /** Which of the blocks won each row, and where in that block the row is. */
  readonly blockOf: Int32Array
  readonly positionOf: Int32Array
  /** Row number, from 1, of each row's original; 0 for a row that is none. */
  readonly duplicateOf: Int32Array
  /** Which contacts of a feed the rows are; undefined when no block of the chunk says. */
  readonly contacts: Contacts | undefined
}

/** One entry a row. */
export type Contacts = NonNullable<CompletedRows['contacts']>

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
 * hold. Says only where the cells are, as most readers want them in another form.
 * Throws ResultsError unless every row of the chunk comes exactly once.
 */
export function mergeChunk (plan: ChunkPlan, blocks: readonly OpenBlock[]): MergedChunk {
  const { firstRow, rows } = plan
  const won = {
    blockOf: new Int32Array(rows).fill(NOBODY),
    positionOf: new Int32Array(rows),
    duplicateOf: new Int32Array(rows),
  }
  for (const [number, block] of blocks.entries()) addWon(plan, block, { ...won, number })
  const open = won.blockOf.indexOf(NOBODY)
  if (open >= 0) throw new ResultsError(`row ${firstRow + open + 1} has no result`)
  return {
    firstRow,
    rows,
    inputs: inputsOf(plan, blocks),
    blocks: blocks.map(block => block.rows),
    ...won,
    contacts: blocks.find(block => block.rows.contacts)?.rows.contacts ?? undefined,
  }
}

const NOBODY = -1

type Won = Pick<MergedChunk, 'blockOf' | 'positionOf' | 'duplicateOf'> & {
  /** Of the block, within `blocks`. */
  readonly number: number
}

/** Rows a block won in this chunk; a block of the whole job reaches beyond it on both sides. */
function addWon (
  plan: ChunkPlan, { entry, rows }: OpenBlock, { blockOf, positionOf, duplicateOf, number }: Won
): void {
  const shift = entry.firstRow - plan.firstRow
  for (let position = 0; position < rows.rows.length; position++) {
    const inBlock = rows.rows[position] as number
    const index = inBlock + shift
    if (index < 0 || index >= plan.rows || !has(entry.won, inBlock)) continue
    if (blockOf[index] !== NOBODY) {
      throw new ResultsError(`row ${plan.firstRow + index + 1} came twice`)
    }
    blockOf[index] = number
    positionOf[index] = position
    duplicateOf[index] = rows.duplicateOf[position] ?? 0
  }
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
