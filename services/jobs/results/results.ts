import type { CompletedRows } from '../../../schemas/types.ts'
import { FILTER_COLUMNS } from '../../../schemas/api/results.ts'
import { unpackWith } from '../../runtime/crypto/seal.ts'
import type { Codec } from '../../runtime/kafka/registry.ts'
import { eventLoop } from '../../runtime/platform/limits.ts'
import type { ServiceSlug } from '../../topology.ts'
import type { Job, ManifestEntry } from '../job.ts'
import { JobKeyLostError, type JobKeys } from '../job-keys.ts'
import { unsealRows } from '../message-codec.ts'
import { listRowFields } from './columns.ts'
import { createCsv, csvHeader, csvLine, type CsvOptions } from './csv.ts'
import {
  type CellReader, type ChunkPlan, type Contacts, createCellReader, createRepeater, type JobPlan,
  mergeChunk, type MergedChunk, type OpenBlock, planJob, type ReadChunk, referenceAt, ResultsError,
} from './merge.ts'
import { type ResultBlocks, type StoredBlock, withInlineResults } from './result-blocks.ts'
import { hasAllRows } from '../job-record.ts'

/** Cells of some rows, in order, by the fields of the job's service. */
export type Rows = readonly (readonly string[])[]

export type RowOptions = {
  /** Each row ends with what its sender gave with it, as one more cell. */
  readonly withReference?: boolean
  /** Rows after this one, 0 for all. */
  readonly afterRow?: number
  /** At most so many rows of those that `keep` accepts. */
  readonly limit?: number
  readonly keep?: RowFilter | undefined
  /** Blocks of the job that are in memory already. */
  readonly inlineResults?: readonly StoredBlock[]
}

export type Results = ReturnType<typeof createResults>

/** Rows of one chunk; `contacts` is undefined if the block with them is lost. */
type FeedRows = { readonly rows: Rows, readonly contacts: Contacts | undefined }

/** Decrypting this many takes about as long as the next query. */
const FIRST_CHUNKS = 8
const FILTERED_CHUNKS = 5
const WHOLE = { from: 0, to: Infinity, firstChunks: FIRST_CHUNKS, ahead: true }

/**
 * Reads the results of jobs: exactly the blocks of the manifest, and of each the rows it won.
 * Throws MissingResultsError before the first row when a block is not stored, its subclass
 * LostResultsError when the results cannot be decrypted any more, ResultsError when the blocks do
 * not form the job, SealError when one was changed.
 */
export function createResults (deps: ReadingDeps) {
  /** Rows in order, by chunk; the first ones come after all blocks were found to exist. */
  async function * rows (
    job: Job, manifest: readonly ManifestEntry[], options: RowOptions = {}
  ): AsyncIterable<Rows> {
    const { afterRow = 0, limit = Infinity, keep, inlineResults = [] } = options
    const readRows = createRowReader(job, options)
    const blocks = withInlineResults(deps.blocks, inlineResults)
    const to = keep === undefined ? afterRow + limit : Infinity
    const chunks = await openChunks({ ...deps, blocks }, {
      job,
      manifest,
      range: limit === Infinity
        ? { ...WHOLE, from: afterRow }
        : { from: afterRow, to, firstChunks: keep ? FILTERED_CHUNKS : 1, ahead: false },
    })
    let left = limit
    for await (const chunk of chunks) {
      const read = readRows(chunk, afterRow)
      const kept = (keep === undefined ? read : read.filter(keep)).slice(0, left)
      left -= kept.length
      if (kept.length > 0) yield kept
      if (left === 0) return
    }
  }
  /** All rows of a feed job, with their contacts. */
  async function * feedRows (
    job: Job, manifest: readonly ManifestEntry[]
  ): AsyncIterable<FeedRows> {
    const rowsOf = createRowReader(job)
    for await (const chunk of await openChunks(deps, { job, manifest, range: WHOLE })) {
      yield { rows: rowsOf(chunk), contacts: chunk.merged.contacts }
    }
  }
  /** The result file in pieces of whole lines; the first one is the header. */
  async function * csvStream (
    job: Job, manifest: readonly ManifestEntry[], options: CsvOptions = {}
  ): AsyncIterable<Uint8Array> {
    const writeCsv = createCsv(job, options)
    const chunks = await openChunks(deps, { job, manifest, range: WHOLE })
    yield Buffer.from(csvLine(csvHeader(job, options), options.delimiter))
    for await (const chunk of chunks) {
      for (let row = 0; row < chunk.merged.rows;) {
        const { lines, nextRow } = writeCsv(chunk, row)
        if (lines.length > 0) yield lines
        // Further pieces of a chunk are made only for many columns.
        if (nextRow < chunk.merged.rows) await eventLoop.yield('bulk', job.tenant)
        row = nextRow
      }
    }
  }
  return { rows, feedRows, csvStream }
}

/** Reads the cells of a chunk, without the first `from` rows of the job. */
function createRowReader (
  job: Job, { withReference = false }: RowOptions = {}
): (chunk: ReadChunk, from?: number) => Rows {
  const cellsAt = createCellReader(listRowFields(job.service))
  return ({ merged, repeated }, from = 0) => {
    const skipped = Math.max(0, from - merged.firstRow)
    return Array.from({ length: merged.rows - skipped }, (_, at) => {
      const cells = repeated.get(skipped + at) ?? cellsAt(merged, skipped + at)
      return withReference ? [...cells, referenceAt(merged, skipped + at)] : cells
    })
  }
}

/** Blocks of the manifest are not stored, or cannot be decrypted any more. */
export class MissingResultsError extends ResultsError {
  override readonly name: string = 'MissingResultsError'
}

/** The key of the results is lost, or their job ended without it: they are unreadable for ever. */
export class LostResultsError extends MissingResultsError {
  override readonly name: string = 'LostResultsError'
}

export type ReadingDeps = {
  readonly blocks: Pick<ResultBlocks, 'digests' | 'read'>
  readonly codec: Pick<Codec, 'prepare'>
  readonly keys: JobKeys
}

/** The rows after the first `from` ones up to row `to`, and how they are read ahead. */
type ReadRange = ReadAheadOptions & { readonly from: number, readonly to: number }

/** The state of one read of a job; retains the cells of originals that have duplicates. */
type Reading = {
  readonly job: Job
  readonly plan: JobPlan
  readonly range: ReadRange
  readonly key: Buffer
  readonly cellsAt: CellReader
  readonly repeat: ReturnType<typeof createRepeater>
  readonly jobWide: readonly OpenBlock[]
  readonly cellsByOriginal: Map<number, readonly string[]>
}

type StoredBlocks = ReadonlyMap<StoredBlock['digest'], StoredBlock>

/**
 * Opens the chunks of a job for reading in order. Throws MissingResultsError when a block is not
 * stored, its subclass LostResultsError when the results cannot be decrypted any more.
 */
async function openChunks (
  deps: ReadingDeps, { job, manifest, range }: {
    readonly job: Job, readonly manifest: readonly ManifestEntry[], readonly range: ReadRange
  }
): Promise<AsyncIterable<ReadChunk>> {
  // A job that ended without its key has rows without a block.
  if (!hasAllRows(job.preflight.totalRows, manifest)) {
    throw new LostResultsError(`job ${job.id} ended without the key of its results`)
  }
  const plan = planJob(manifest, {
    id: job.id, chunks: job.chunks, totalRows: job.preflight.totalRows,
  })
  const wanted = plan.chunks.filter(({ firstRow, rows }) => firstRow + rows > range.from)
  // If the first read is the whole job, it shows whether a block is missing.
  const isWholeJob = !range.ahead && wanted.length === plan.chunks.length &&
    wanted.length <= range.firstChunks
  // The first blocks are read concurrently with the digests and the key, and used only after these.
  const batches = readAhead(wanted, range, plans => readBlocks(deps, job, plans))
  const [key] = await Promise.all([
    deps.keys.get(job.tenant, job.id).catch(undefinedIfLost),
    isWholeJob ? undefined : checkBlocks(deps, job, plan),
  ])
  if (key === undefined) throw new LostResultsError(`the data key of job ${job.id} is lost`)
  const fields = listRowFields(job.service)
  const reading = {
    job,
    plan,
    range,
    key,
    cellsAt: createCellReader(fields),
    repeat: createRepeater(fields),
    jobWide: [],
    cellsByOriginal: new Map(),
  }
  const jobWide = await openJobWide(deps, reading)
  return openBatches(deps, { ...reading, jobWide }, batches)
}

/** The key of a job that has ended and is not closed yet may be lost as well. */
export function undefinedIfLost (error: unknown): undefined {
  if (!(error instanceof JobKeyLostError)) throw error
}

async function checkBlocks (
  { blocks }: ReadingDeps, job: Job, plan: JobPlan
): Promise<void> {
  const needed = listDigests([...plan.jobWide, ...plan.chunks.flatMap(({ entries }) => entries)])
  const stored = await blocks.digests(job.tenant, job.id, needed)
  const missing = needed.filter(digest => !stored.has(digest)).length
  if (missing === 0) return
  throw new MissingResultsError(`${missing} of ${needed.length} result blocks of job ${job.id} ` +
    'are missing in ClickHouse; restore them from a backup')
}

async function openJobWide (
  { blocks, codec }: ReadingDeps, reading: Reading
): Promise<readonly OpenBlock[]> {
  const { job, plan } = reading
  if (plan.jobWide.length === 0) return []
  const stored = byDigest(await blocks.read({
    tenant: job.tenant,
    job: job.id,
    firstChunk: job.chunks,
    lastChunk: job.chunks,
    digests: listDigests(plan.jobWide),
  }))
  return await openEntries({ codec }, reading, { entries: plan.jobWide, stored })
}

async function * openBatches (
  deps: ReadingDeps, reading: Reading, batches: AsyncIterable<ChunkBatch>
): AsyncIterable<ReadChunk> {
  for await (const [plans, blocks] of batches) {
    const stored = byDigest(blocks)
    for (const plan of plans) {
      const merged = await openChunk(deps, reading, { plan, stored })
      yield { merged, repeated: await repeatOriginals(deps, reading, merged) }
    }
  }
}

/** The stored blocks of these plans. */
export async function readBlocks (
  { blocks }: ReadingDeps, job: Job, plans: readonly ChunkPlan[]
): Promise<readonly StoredBlock[]> {
  const numbers = plans.map(({ chunk }) => Math.max(chunk, 0))
  return await blocks.read({
    tenant: job.tenant,
    job: job.id,
    firstChunk: Math.min(...numbers),
    lastChunk: Math.max(...numbers),
    digests: listDigests(plans.flatMap(({ entries }) => entries)),
  })
}

const listDigests = (entries: readonly ManifestEntry[]) => entries.map(({ digest }) => digest)

/** Blocks by their digest. */
export function byDigest (blocks: readonly StoredBlock[]): StoredBlocks {
  return new Map(blocks.map(block => [block.digest, block]))
}

async function openChunk (
  { codec }: ReadingDeps, reading: Reading,
  { plan, stored }: { readonly plan: ChunkPlan, readonly stored: StoredBlocks }
): Promise<MergedChunk> {
  const { job, cellsAt, jobWide, cellsByOriginal } = reading
  const open = await openEntries({ codec }, reading, { entries: plan.entries, stored })
  const merged = mergeChunk(job.id, plan, [...open, ...jobWide])
  const marked = plan.entries.flatMap(({ digest }) => stored.get(digest)?.originals ?? [])
  for (const index of marked) {
    if (index < plan.rows) cellsByOriginal.set(plan.firstRow + index + 1, cellsAt(merged, index))
  }
  return merged
}

/**
 * The decrypted blocks of these entries.
 * @throws MissingResultsError, SealError.
 */
export async function openEntries (
  { codec }: Pick<ReadingDeps, 'codec'>, { job, key }: { readonly job: Job, readonly key: Buffer },
  { entries, stored }: {
    readonly entries: readonly ManifestEntry[], readonly stored: StoredBlocks
  }
): Promise<readonly OpenBlock[]> {
  return await Promise.all(entries.map(async entry => {
    const block = stored.get(entry.digest)
    if (block === undefined) {
      throw new MissingResultsError(`result block ${entry.digest} of job ${job.id} is missing or ` +
        'changed in ClickHouse; restore it from a backup')
    }
    const { chunk, batch, chunks, rowsSchema } = block
    const binding = {
      tenant: job.tenant,
      job: job.id,
      topic: 'rows.completed',
      chunk,
      batch,
      chunks,
      rowsSchema,
      bound: Buffer.from(block.bound, 'hex'),
    } as const
    const packed = unsealRows(key, binding, block.sealed)
    const decode = await codec.prepare('rows.completed-rows', rowsSchema)
    const rows = unpackWith(packed, decode) as CompletedRows
    return { entry, rows }
  }))
}

/**
 * Fills in the duplicates of a chunk within the range. Originals come before their duplicates, so
 * most were read already. One that was not marked, or is before the range, is read separately.
 */
async function repeatOriginals (
  deps: ReadingDeps, reading: Reading, merged: MergedChunk
): Promise<ReadChunk['repeated']> {
  const { job, plan, range, cellsAt, repeat, cellsByOriginal } = reading
  const { firstRow, duplicateOf } = merged
  const repeated = new Map<number, readonly string[]>()
  const isRead = (index: number) => firstRow + index >= range.from && firstRow + index < range.to
  const wanted = [...new Set(duplicateOf.filter((_, index) => isRead(index)))]
    .filter(row => row > 0 && !cellsByOriginal.has(row))
  for (const row of wanted.filter(row => row > firstRow)) {
    cellsByOriginal.set(row, cellsAt(merged, row - firstRow - 1))
  }
  const elsewhere = Map.groupBy(wanted.filter(row => row <= firstRow), row =>
    plan.chunks.findLast(chunk => chunk.firstRow < row) as ChunkPlan)
  for (const [chunk, rows] of elsewhere) {
    const stored = byDigest(await readBlocks(deps, job, [chunk]))
    const opened = await openChunk(deps, reading, { plan: chunk, stored })
    for (const row of rows) cellsByOriginal.set(row, cellsAt(opened, row - chunk.firstRow - 1))
  }
  for (const [index, original] of duplicateOf.entries()) {
    if (original === 0 || !isRead(index)) continue
    repeated.set(index, repeat(merged, index, cellsByOriginal.get(original) ?? []))
  }
  return repeated
}

/** How many chunks are read at once. */
type ReadAheadOptions = {
  /** The size of the first batch, when the sizes of chunks are unknown. */
  readonly firstChunks: number
  /** Whether the next batch is read while the current one is consumed. */
  readonly ahead: boolean
}

/** Some chunks, with all their stored blocks. */
type ChunkBatch = readonly [plans: readonly ChunkPlan[], stored: readonly StoredBlock[]]

type Read = (plans: readonly ChunkPlan[]) => Promise<readonly StoredBlock[]>

type Request = { readonly plans: readonly ChunkPlan[], readonly answer: Promise<ChunkBatch[1]> }

/** The fixed cost of a query equals that of reading about as many bytes. */
const BYTES_PER_BATCH = 1_048_576
const MAX_CHUNKS = 25

/**
 * Reads the blocks of chunks in order, in batches; starts the first read at once. Later batches
 * take as many chunks as hold about a megabyte of sealed bytes, estimated from the previous batch,
 * so memory is bounded. Reads at most one batch ahead; a batch that is not consumed is dropped with
 * its failure.
 */
export function readAhead (
  plans: readonly ChunkPlan[], { firstChunks, ahead }: ReadAheadOptions, read: Read
): AsyncIterable<ChunkBatch> {
  let at = 0
  const start = (chunks: number): Request | undefined => {
    const next = plans.slice(at, at + chunks)
    at += next.length
    if (next.length === 0) return undefined
    const answer = read(next)
    // Avoids an unhandled rejection if it is never awaited; a consumer still gets the failure.
    answer.catch(() => {})
    return { plans: next, answer }
  }
  const first = start(firstChunks)
  return (async function * () {
    for (let request = first; request !== undefined;) {
      const stored = await request.answer
      const bytes = stored.reduce((sum, { sealed }) => sum + sealed.length, 1)
      const fitting = Math.floor(BYTES_PER_BATCH * request.plans.length / bytes)
      const chunks = ahead ? Math.min(Math.max(fitting, 1), MAX_CHUNKS) : firstChunks
      const next = ahead ? start(chunks) : undefined
      yield [request.plans, stored] as const
      request = ahead ? next : start(chunks)
    }
  })()
}

/** Whether a row is wanted, by its cells. */
export type RowFilter = (cells: readonly string[]) => boolean

/** The wanted values of columns, each of a closed list; a column that is missing takes any. */
export type WantedRows = Readonly<Partial<Record<typeof FILTER_COLUMNS[number],
  readonly string[] | undefined>>> & { readonly duplicates?: 'drop' | 'mailbox' | undefined }

/**
 * The filter of rows as they are returned, where a duplicate repeats the verdict of its original;
 * undefined if it keeps all. One that keeps the first row of each mailbox must get all rows of the
 * job in order, each once.
 */
export function createRowFilter (
  service: ServiceSlug, wanted: WantedRows
): RowFilter | undefined {
  const fields = listRowFields(service)
  const tests = FILTER_COLUMNS.flatMap(name => {
    const values = wanted[name]
    return values === undefined ? [] : [{ at: fields.indexOf(name), values: new Set(values) }]
  })
  const { duplicates } = wanted
  if (tests.length === 0 && duplicates === undefined) return undefined
  const matches: RowFilter = cells => tests.every(({ at, values }) => values.has(cells[at] ?? ''))
  if (duplicates === undefined) return matches
  if (duplicates === 'mailbox') {
    const isFirst = createFirstOfMailbox(fields)
    return cells => matches(cells) && isFirst(cells)
  }
  const sourceAt = fields.indexOf('source')
  return cells => cells[sourceAt] !== 'duplicate' && matches(cells)
}

/** Keeps the first row of each mailbox, and rows without an address. */
function createFirstOfMailbox (fields: readonly string[]): RowFilter {
  const [normalizedAt, emailAt] = [fields.indexOf('normalized'), fields.indexOf('email')]
  const seen = new Set<string>()
  return cells => {
    // A row of an earlier release has no normalized form.
    const mailbox = cells[normalizedAt] || cells[emailAt]?.toLowerCase() || ''
    if (mailbox === '') return true
    const isFirst = !seen.has(mailbox)
    seen.add(mailbox)
    return isFirst
  }
}
