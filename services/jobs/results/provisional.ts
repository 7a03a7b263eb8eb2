import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { CompletedRows } from '../../../schemas/types.ts'
import { has, indexes } from '../../runtime/platform/bitmap.ts'
import type { Job, ManifestEntry } from '../job.ts'
import { listRowFields } from './columns.ts'
import {
  type ChunkPlan, createCellReader, createRepeater, mergeBlocks, type OpenBlock, planChunks,
  referenceAt,
} from './merge.ts'
import {
  type RowOptions, type Rows, byDigest, LostResultsError, MissingResultsError, openEntries,
  readAhead, readBlocks, type ReadingDeps, undefinedIfLost,
} from './results.ts'
import { hasAllRows } from '../job-record.ts'

/**
 * Where a reader of a running job stands. Each row has a step with which it is complete, see
 * `computeSteps`: the reader has all rows of the steps up to `from`, and of those up to `to` the
 * rows with numbers up to `row`. `prefix` identifies the blocks of the steps up to `to`.
 */
export type ResultCursor = {
  readonly from: number
  readonly to: number
  readonly row: number
  readonly prefix: string
}

/**
 * The blocks of a job in the order in which they were counted, those that an older release counted
 * first. The manifest is by chunk and digest.
 */
export function countedBlocks (manifest: readonly ManifestEntry[]): readonly ManifestEntry[] {
  return manifest.toSorted((a, b) => (a.order ?? 0) - (b.order ?? 0))
}

/** The position after all rows of the first steps. */
export function cursorAfter (blocks: readonly ManifestEntry[], steps: number): ResultCursor {
  const digests = blocks.slice(0, steps).map(({ digest }) => digest).join('')
  const prefix = hash('sha256', digests, 'base64url').slice(0, PREFIX_CHARACTERS)
  return { from: steps, to: steps, row: 0, prefix }
}

const PREFIX_CHARACTERS = 16

/**
 * Whether a cursor fits the blocks of a job. `moved`: they were counted again in another order, so
 * what the reader has is unknown. `behind`: they are being counted again, so that is not known yet.
 */
export function checkCursor (
  { ended }: Job, blocks: readonly ManifestEntry[], { from, to, prefix }: ResultCursor
): 'fits' | 'moved' | 'behind' {
  if (to > blocks.length && !ended) return 'behind'
  const isKnown = from <= to && to <= blocks.length + (ended ? 1 : 0)
  return isKnown && cursorAfter(blocks, to).prefix === prefix ? 'fits' : 'moved'
}

/** The text of a cursor, opaque to clients. */
export function encodeResultCursor ({ from, to, row, prefix }: ResultCursor): string {
  return `1.${from}.${to}.${row}.${prefix}`
}

const CURSOR = /^1\.(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})\.([\w-]{16})$/

/** The cursor in a text; undefined for another text. */
export function decodeResultCursor (text: string): ResultCursor | undefined {
  const [, from, to, row, prefix = ''] = CURSOR.exec(text) ?? []
  return from === undefined
    ? undefined
    : { from: Number(from), to: Number(to), row: Number(row), prefix }
}

/** Rows in the order of their numbers; the cursor after each is `window` with its number. */
export type ProvisionalRows = { readonly rows: Rows, readonly window: ResultCursor }

type ProvisionalRead = {
  readonly rows: AsyncIterable<ProvisionalRows>
  /** The cursor after all of these rows. */
  readonly next: ResultCursor
  /** Whether no further row will follow them. */
  readonly isComplete: boolean
}

/** The blocks that are counted, and a cursor that fits them. */
type Position = {
  readonly job: Job
  /** In the order in which they were counted. */
  readonly blocks: readonly ManifestEntry[]
  readonly after: ResultCursor
}

/** Pairs: index of a duplicate in the chunk of its block, row number of its original. */
type Duplicates = Int32Array

/** Four bytes each. */
const MAX_DUPLICATES = 4_000_000
/** Characters: several large jobs. */
const MAX_OPENED = 32_000_000
/** Contacts are not kept in memory for long. */
const OPENED_MS = 5_000

/** Counted beside the characters, for each value and row. */
const PER_VALUE = 16

/**
 * Reads the rows of a job while it runs, each once. A row is complete with a step: the highest
 * number, in the order of counting, of the block that won it, of the first block with the inputs of
 * its chunk, and for a duplicate of the block that won its original. A step depends only on the
 * blocks counted before it, so it never changes: steps up to a cursor were read, those after it
 * were not. Blocks are counted before they are stored; the read ends before the first one that is
 * not stored yet. What a job lacks at its end (the inputs of a lost chunk) comes with a last step.
 * @throws the errors of `createResults`.
 */
export class ProvisionalResults {
  readonly #deps: ReadingDeps
  /** The duplicates of blocks that were opened, by digest: each call needs those of all before. */
  readonly #duplicates = new LRUCache<string, Duplicates>({
    maxSize: MAX_DUPLICATES, sizeCalculation: ({ length }) => length + 1,
  })

  /** Blocks with inputs that were opened lately, by digest: a job is read again each second. */
  readonly #opened = new LRUCache<string, CompletedRows>({
    maxSize: MAX_OPENED,
    sizeCalculation: ({ rows, inputs, columns, contacts }) =>
      [inputs ?? [], contacts?.references ?? [], ...columns.map(({ values }) => values)].flat()
        .reduce((sum, text) => sum + text.length + PER_VALUE, PER_VALUE * rows.length),
    ttl: OPENED_MS,
    ttlAutopurge: true,
  })

  constructor (deps: ReadingDeps) {
    this.#deps = deps
  }

  /** The rows that are complete and were not read before the cursor. */
  async open (position: Position, options: RowOptions = {}): Promise<ProvisionalRead> {
    const { job, blocks, after } = position
    const { keys } = this.#deps
    const isLost = job.ended && !hasAllRows(job.preflight.totalRows, blocks)
    const [key, steps] = await Promise.all([
      keys.get(job.tenant, job.id).catch(undefinedIfLost), this.#countStored(position),
    ])
    if (isLost || key === undefined) {
      throw new LostResultsError(`the data key of job ${job.id} is lost`)
    }
    const read = this.#read.bind(this, { job, key, blocks: blocks.slice(0, steps), ...options })
    const next = cursorAfter(blocks, steps)
    return {
      rows: read([after, { ...next, from: after.to }]), next, isComplete: steps > blocks.length,
    }
  }

  /** The number of steps whose blocks are stored; one more than there are blocks at the end. */
  async #countStored ({ job, blocks, after }: Position): Promise<number> {
    const wanted = blocks.slice(after.to).map(({ digest }) => digest)
    const stored = wanted.length === 0
      ? new Set<string>()
      : await this.#deps.blocks.digests(job.tenant, job.id, wanted)
    const missing = wanted.findIndex(digest => !stored.has(digest))
    if (missing < 0) return job.ended ? blocks.length + 1 : blocks.length
    if (!job.closed) return after.to + missing
    throw new MissingResultsError(`result block ${wanted[missing]} of job ${job.id} is missing ` +
      'in ClickHouse; restore it from a backup')
  }

  async * #read (
    reading: Reading, windows: readonly ResultCursor[]
  ): AsyncGenerator<ProvisionalRows, void> {
    if (windows.every(({ from, to }) => from === to)) return
    const duplicates = await this.#findDuplicates(reading)
    const steps = computeSteps(reading, duplicates)
    for (const window of windows) {
      for await (const rows of this.#readWindow(reading, steps, window)) yield { rows, window }
    }
  }

  async * #readWindow (
    reading: Reading, steps: Steps, window: ResultCursor
  ): AsyncGenerator<Rows, void> {
    const { job, key, keep, withReference = false } = reading
    const { originalByRow } = steps
    const uses = markUses(steps, window)
    const plans = selectChunks(reading, steps, uses)
    const jobWide = await this.#openJobWide(reading)
    const fields = listRowFields(job.service)
    const [cellsAt, repeat] = [createCellReader(fields), createRepeater(fields)]
    const cellsByOriginal = new Map<number, readonly string[]>()
    for await (const [batch, blocks] of this.#readAhead(job, plans)) {
      const stored = byDigest(blocks)
      for (const plan of batch) {
        const open = await this.#openAll({ job, key }, { entries: plan.entries, stored })
        const merged = mergeBlocks(job.id, plan, [...open, ...jobWide])
        const rows: (readonly string[])[] = []
        for (let index = 0, row = plan.firstRow; index < plan.rows; index += 1, row += 1) {
          if (uses[row] === UNUSED) continue
          const original = cellsByOriginal.get(originalByRow.get(row) ?? -1)
          const cells = original === undefined
            ? cellsAt(merged, index)
            : repeat(merged, index, original)
          if (steps.hasDuplicates.has(row)) cellsByOriginal.set(row, cells)
          if (uses[row] !== WANTED || keep?.(cells) === false) continue
          rows.push(withReference ? [...cells, referenceAt(merged, index)] : cells)
        }
        if (rows.length > 0) yield rows
      }
    }
  }

  async #openAll (
    reading: Pick<Reading, 'job' | 'key'>, { entries, stored }: Parameters<typeof openEntries>[2]
  ): Promise<readonly OpenBlock[]> {
    const open = entries.map(async (entry): Promise<readonly OpenBlock[]> => {
      const before = this.#opened.get(entry.digest)
      if (before !== undefined) return [{ entry, rows: before }]
      const opened = await openEntries(this.#deps, reading, { entries: [entry], stored })
      for (const { rows } of entry.inputs ? opened : []) this.#opened.set(entry.digest, rows)
      return opened
    })
    return (await Promise.all(open)).flat()
  }

  #readAhead (job: Job, plans: readonly ChunkPlan[]) {
    return readAhead(plans, READ_AHEAD, some => readBlocks(this.#deps, job, some))
  }

  /** The block that ended the open rows of a stalled job, if it did. */
  async #openJobWide ({ job, key, blocks }: Reading): Promise<readonly OpenBlock[]> {
    const entries = blocks.filter(({ chunk }) => chunk >= job.chunks)
    if (entries.length === 0) return []
    const plan = { chunk: job.chunks, firstRow: 0, rows: 0, entries }
    const stored = byDigest(await readBlocks(this.#deps, job, [plan]))
    return await openEntries(this.#deps, { job, key }, { entries, stored })
  }

  /** The duplicates in each block by digest. Only blocks with the inputs of a chunk have any. */
  async #findDuplicates (reading: Reading): Promise<ReadonlyMap<string, Duplicates>> {
    const { job, key, blocks } = reading
    const duplicates = new Map<string, Duplicates>()
    if (job.preflight.duplicateRows === 0) return duplicates
    const unread: ManifestEntry[] = []
    for (const entry of blocks.filter(({ inputs }) => inputs)) {
      const before = this.#duplicates.get(entry.digest)
      if (before === undefined) unread.push(entry)
      else duplicates.set(entry.digest, before)
    }
    const plans = [...Map.groupBy(unread, ({ chunk }) => chunk)]
      .sort(([a], [b]) => a - b)
      .map(([chunk, entries]) => ({ chunk, firstRow: 0, rows: 0, entries }))
    for await (const [batch, stored] of this.#readAhead(job, plans)) {
      for (const { entries } of batch) {
        const open = await this.#openAll({ job, key }, { entries, stored: byDigest(stored) })
        for (const { entry, rows } of open) {
          const pairs = Int32Array.from(rows.duplicateOf.flatMap((original, position) =>
            original === 0 ? [] : [rows.rows[position]!, original]))
          duplicates.set(entry.digest, pairs)
          this.#duplicates.set(entry.digest, pairs)
        }
      }
    }
    return duplicates
  }
}

const READ_AHEAD = { firstChunks: 8, ahead: true }

type Reading = Pick<RowOptions, 'keep' | 'withReference'> & {
  readonly job: Job
  readonly key: Buffer
  /** The stored ones of the first steps. */
  readonly blocks: readonly ManifestEntry[]
}

type Steps = {
  /** In order, without gaps; `entries` are all of the chunk. */
  readonly chunks: readonly ChunkPlan[]
  /** The number of the block that won each row, 0 for none. */
  readonly wonBy: Int32Array
  /** The step with which each row is complete; Infinity while it is not known. */
  readonly stepByRow: Float64Array
  /** The original of each duplicate, both by index in the job. */
  readonly originalByRow: ReadonlyMap<number, number>
  /** Originals with duplicates. */
  readonly hasDuplicates: ReadonlySet<number>
}

function computeSteps (
  { job, blocks }: Reading, duplicates: ReadonlyMap<string, Duplicates>
): Steps {
  const { totalRows } = job.preflight
  const chunks = planChunks(blocks, { id: job.id, chunks: job.chunks, totalRows })
  const wonBy = new Int32Array(totalRows)
  for (const [index, { won, firstRow }] of blocks.entries()) {
    for (const row of indexes(won)) wonBy[firstRow + row] = index + 1
  }
  const stepByRow = new Float64Array(totalRows).fill(Infinity)
  for (const { firstRow, rows, entries } of chunks) {
    const numbers = entries.filter(({ inputs }) => inputs).map(entry => blocks.indexOf(entry) + 1)
    const inputsAt = Math.min(...numbers, job.ended ? blocks.length + 1 : Infinity)
    for (let row = firstRow; row < firstRow + rows; row += 1) {
      if (wonBy[row] !== 0) stepByRow[row] = Math.max(wonBy[row]!, inputsAt)
    }
  }
  const originalByRow = new Map<number, number>()
  for (const { digest, won, firstRow } of blocks) {
    const pairs = duplicates.get(digest) ?? new Int32Array()
    for (let at = 0; at < pairs.length; at += 2) {
      if (!has(won, pairs[at]!)) continue
      const [row, original] = [firstRow + pairs[at]!, pairs[at + 1]! - 1]
      originalByRow.set(row, original)
      stepByRow[row] = Math.max(stepByRow[row]!, wonBy[original] || Infinity)
    }
  }
  return { chunks, wonBy, stepByRow, originalByRow, hasDuplicates: new Set(originalByRow.values()) }
}

const [UNUSED, REPEATED, WANTED] = [0, 1, 2]

/** By index in the job: the rows of a window, and originals that duplicates among them repeat. */
function markUses (
  { stepByRow, originalByRow }: Steps, { from, to, row: afterRow }: ResultCursor
): Uint8Array {
  const uses = new Uint8Array(stepByRow.length)
  for (let row = afterRow; row < uses.length; row += 1) {
    if (stepByRow[row]! > from && stepByRow[row]! <= to) uses[row] = WANTED
  }
  for (const [row, original] of originalByRow) {
    if (uses[row] === WANTED && uses[original] === UNUSED) uses[original] = REPEATED
  }
  return uses
}

/** The chunks with used rows, with the blocks that are read of them. */
function selectChunks (
  { blocks }: Reading, { chunks, wonBy }: Steps, uses: Uint8Array
): readonly ChunkPlan[] {
  return chunks.flatMap(plan => {
    const winners = new Set<ManifestEntry | undefined>()
    for (let row = plan.firstRow; row < plan.firstRow + plan.rows; row += 1) {
      if (uses[row] !== UNUSED) winners.add(blocks[wonBy[row]! - 1])
    }
    if (winners.size === 0) return []
    return [{ ...plan, entries: plan.entries.filter(entry => entry.inputs || winners.has(entry)) }]
  })
}
