import type { CompletedRows } from '../../../schemas/types.ts'
import { unpackWith } from '../../runtime/crypto/seal.ts'
import { JobKeyLostError, type JobKeys } from '../job-keys.ts'
import type { Job, ManifestEntry } from '../job.ts'
import { unfinishedRowsOf } from '../job-record.ts'
import { unsealRows } from '../rows-seal.ts'
import type { Codec } from '../../runtime/kafka/registry.ts'
import { rowFieldsOf } from './columns.ts'
import {
  mergeChunk, planJob, ResultsError, type ChunkPlan, type JobPlan, type MergedChunk, type OpenBlock,
  createCellReader, createRepeater, type CellReader,
} from './merge.ts'
import type { ResultBlocks, StoredBlock } from './result-blocks.ts'

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
  readonly keys: Pick<JobKeys, 'get'>
}

/** The rows of a chunk; `repeated` has the cells of duplicates, by index. */
export type ReadChunk = {
  readonly merged: MergedChunk
  readonly repeated: ReadonlyMap<number, readonly string[]>
}

/** The rows after the first `from` ones up to row `to`, and how they are read ahead. */
type ReadRange = ReadAheadOptions & { readonly from: number, readonly to: number }

/** The state of one read of a job; retains originals that have duplicates. */
type Reading = {
  readonly job: Job
  readonly plan: JobPlan
  readonly range: ReadRange
  readonly key: Buffer
  readonly cellsAt: CellReader
  readonly repeat: ReturnType<typeof createRepeater>
  readonly jobWide: readonly OpenBlock[]
  readonly originals: Map<number, readonly string[]>
}

type StoredBlocks = ReadonlyMap<StoredBlock['digest'], StoredBlock>

/**
 * Opens the chunks of a job for reading in order. Throws MissingResultsError when a block is not
 * stored, its subclass LostResultsError when the results cannot be decrypted any more.
 */
export async function openChunks (
  deps: ReadingDeps, { job, manifest, range }: {
    readonly job: Job, readonly manifest: readonly ManifestEntry[], readonly range: ReadRange
  }
): Promise<AsyncIterable<ReadChunk>> {
  // A job that ended without its key has rows without a block.
  if (unfinishedRowsOf(job.preflight.totalRows, manifest).some(byte => byte !== 0)) {
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
  const fields = rowFieldsOf(job.service)
  const reading = {
    job,
    plan,
    range,
    key,
    cellsAt: createCellReader(fields),
    repeat: createRepeater(fields),
    jobWide: [],
    originals: new Map(),
  }
  const jobWide = await openJobWide(deps, reading)
  return chunksOf(deps, { ...reading, jobWide }, batches)
}

/** The key of a job that has ended and is not closed yet may be lost as well. */
export function undefinedIfLost (error: unknown): undefined {
  if (!(error instanceof JobKeyLostError)) throw error
}

async function checkBlocks (
  { blocks }: ReadingDeps, job: Job, plan: JobPlan
): Promise<void> {
  const needed = digestsOf([...plan.jobWide, ...plan.chunks.flatMap(({ entries }) => entries)])
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
    digests: digestsOf(plan.jobWide),
  }))
  return await openEntries({ codec }, reading, { entries: plan.jobWide, stored })
}

async function * chunksOf (
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
  { blocks }: Pick<ReadingDeps, 'blocks'>, job: Job, plans: readonly ChunkPlan[]
): Promise<readonly StoredBlock[]> {
  const numbers = plans.map(({ chunk }) => Math.max(chunk, 0))
  return await blocks.read({
    tenant: job.tenant,
    job: job.id,
    firstChunk: Math.min(...numbers),
    lastChunk: Math.max(...numbers),
    digests: digestsOf(plans.flatMap(({ entries }) => entries)),
  })
}

const digestsOf = (entries: readonly ManifestEntry[]) => entries.map(({ digest }) => digest)

/** Blocks by their digest. */
export function byDigest (blocks: readonly StoredBlock[]): StoredBlocks {
  return new Map(blocks.map(block => [block.digest, block]))
}

async function openChunk (
  { codec }: Pick<ReadingDeps, 'codec'>, reading: Reading,
  { plan, stored }: { readonly plan: ChunkPlan, readonly stored: StoredBlocks }
): Promise<MergedChunk> {
  const { job, cellsAt, jobWide, originals } = reading
  const open = await openEntries({ codec }, reading, { entries: plan.entries, stored })
  const merged = mergeChunk(job.id, plan, [...open, ...jobWide])
  const marked = plan.entries.flatMap(({ digest }) => stored.get(digest)?.originals ?? [])
  for (const index of marked) {
    if (index < plan.rows) originals.set(plan.firstRow + index + 1, cellsAt(merged, index))
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
  const { job, plan, range, cellsAt, repeat, originals } = reading
  const { firstRow, duplicateOf } = merged
  const repeated = new Map<number, readonly string[]>()
  const isRead = (index: number) => firstRow + index >= range.from && firstRow + index < range.to
  const wanted = [...new Set(duplicateOf.filter((_, index) => isRead(index)))]
    .filter(row => row > 0 && !originals.has(row))
  for (const row of wanted.filter(row => row > firstRow)) {
    originals.set(row, cellsAt(merged, row - firstRow - 1))
  }
  const elsewhere = Map.groupBy(wanted.filter(row => row <= firstRow), row =>
    plan.chunks.findLast(chunk => chunk.firstRow < row) as ChunkPlan)
  for (const [chunk, rows] of elsewhere) {
    const stored = byDigest(await readBlocks(deps, job, [chunk]))
    const opened = await openChunk(deps, reading, { plan: chunk, stored })
    for (const row of rows) originals.set(row, cellsAt(opened, row - chunk.firstRow - 1))
  }
  for (const [index, original] of duplicateOf.entries()) {
    if (original === 0 || !isRead(index)) continue
    repeated.set(index, repeat(merged, index, originals.get(original) ?? []))
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
      const chunks = ahead ? chunksAfter(request.plans.length, stored) : firstChunks
      const next = ahead ? start(chunks) : undefined
      yield [request.plans, stored] as const
      request = ahead ? next : start(chunks)
    }
  })()
}

function chunksAfter (chunks: number, stored: readonly StoredBlock[]): number {
  const bytes = stored.reduce((sum, { sealed }) => sum + sealed.length, 1)
  return Math.min(Math.max(Math.floor(BYTES_PER_BATCH * chunks / bytes), 1), MAX_CHUNKS)
}
