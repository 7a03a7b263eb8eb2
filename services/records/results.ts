import type { FinishedRows } from '../../schemas/types.ts'
import type { JobKeys } from '../jobs/job-keys.ts'
import type { Job, ManifestEntry } from '../jobs/job.ts'
import { openRowsOf } from '../jobs/manifest.ts'
import { openRows } from '../jobs/rows-seal.ts'
import type { Codec } from '../lib/registry.ts'
import { unpack } from '../lib/seal.ts'
import { columnsOf } from './columns.ts'
import { csvLines, guardCell } from './csv.ts'
import {
  mergeChunk, planJob, repeatOriginal, ResultsError,
  type ChunkPlan, type Contacts, type JobPlan, type MergedChunk, type OpenBlock,
} from './merge.ts'
import type { ResultBlocks, StoredBlock } from './result-blocks.ts'

/** Cells of some rows, in order, by the columns of the job's service. */
export type Rows = readonly (readonly string[])[]

/** Rows behind `afterRow` (0 for the first page), at most `limit` of those that are kept. */
export type PageOptions = {
  readonly afterRow: number
  readonly limit: number
  readonly keep?: (cells: readonly string[]) => boolean
}

/** `nextAfterRow` is undefined once no row is left to look at. */
export type Page = { readonly rows: Rows, readonly nextAfterRow: number | undefined }

export type Results = {
  /** All rows, a chunk at a time. Nothing comes before every block was seen to exist. */
  readonly rows: (job: Job, manifest: readonly ManifestEntry[]) => AsyncIterable<Rows>
  /** The result file in pieces; `safe` guards cells that a spreadsheet would run. */
  readonly csvStream: (tenant: string, ...of: CsvRequest) => AsyncIterable<string>
  /** All rows of a feed job, with the contacts they are. */
  readonly feedRows: (job: Job, manifest: readonly ManifestEntry[]) => AsyncIterable<FeedRows>
  readonly page: (
    job: Job, manifest: readonly ManifestEntry[], options: PageOptions
  ) => Promise<Page>
}

/** Rows of one chunk; `contacts` is undefined when what named them is lost. */
export type FeedRows = { readonly rows: Rows, readonly contacts: Contacts | undefined }

export type CsvRequest = readonly [
  job: Job, manifest: readonly ManifestEntry[], options?: { readonly safe?: boolean }
]

/** Blocks that the manifest names are not stored, or nothing opens them any more. */
export class MissingResultsError extends ResultsError {
  override readonly name: string = 'MissingResultsError'
}

/** The key that opens the results is nowhere, or their job ended without it: nobody reads them. */
export class LostResultsError extends MissingResultsError {
  override readonly name: string = 'LostResultsError'
}

type Parts = {
  readonly blocks: ResultBlocks
  readonly codec: Pick<Codec, 'decodeBare'>
  readonly keys: Pick<JobKeys, 'get'>
}

/** One reader of one job: originals that have duplicates are remembered as they pass. */
type Reading = {
  readonly job: Job
  readonly plan: JobPlan
  readonly key: Buffer
  readonly columns: readonly string[]
  readonly jobWide: readonly OpenBlock[]
  readonly originals: Map<number, readonly string[]>
}

const CHUNKS_A_QUERY = 10
const WHOLE = { from: 0, step: CHUNKS_A_QUERY }

/**
 * Reads results as they were stored: exactly the blocks of the manifest, of each exactly the rows
 * it won. Throws MissingResultsError before the first row when a block is not there, its kind
 * LostResultsError when nothing can be opened any more, ResultsError when blocks do not make up the
 * job, SealError when one was changed.
 */
export function createResults (parts: Parts): Results {
  async function * rows (job: Job, manifest: readonly ManifestEntry[]): AsyncIterable<Rows> {
    for await (const some of feedRows(job, manifest)) yield some.rows
  }
  async function * feedRows (job: Job, manifest: readonly ManifestEntry[]) {
    yield * read(parts, await begin(parts, job, manifest), WHOLE)
  }
  return {
    rows,
    feedRows,
    csvStream: async function * (_tenant, ...[job, manifest, { safe = false } = {}]) {
      const reading = await begin(parts, job, manifest)
      yield csvLines([reading.columns])
      for await (const { rows: some } of read(parts, reading, WHOLE)) {
        yield csvLines(safe ? some.map(cells => cells.map(guardCell)) : some)
      }
    },
    page: async (job, manifest, options) =>
      pageOf(read(parts, await begin(parts, job, manifest), {
        from: options.afterRow, step: options.keep === undefined ? 1 : CHUNKS_A_QUERY,
      }), options),
  }
}

async function begin (
  { blocks, codec, keys }: Parts, job: Job, manifest: readonly ManifestEntry[]
): Promise<Reading> {
  // A job that had to end without its key has rows that no block ever brought.
  if (openRowsOf(job.preflight.totalRows, manifest).some(byte => byte !== 0)) {
    throw new LostResultsError(`${job.id} ended without the key of its results`)
  }
  const plan = planJob(manifest, { chunks: job.chunks, totalRows: job.preflight.totalRows })
  const needed = [...plan.jobWide, ...plan.chunks.flatMap(({ entries }) => entries)]
  const stored = await blocks.digests(job.tenant, job.id)
  const missing = needed.filter(({ digest }) => !stored.has(digest)).length
  if (missing > 0) {
    throw new MissingResultsError(`${missing} of ${needed.length} blocks of ${job.id} are missing`)
  }
  const key = await keys.get(job.tenant, job.id)
  if (key === undefined) throw new LostResultsError(`the data key of ${job.id} is gone`)
  const columns = columnsOf(job.service)
  const reading = { job, plan, key, columns, jobWide: [], originals: new Map() }
  if (plan.jobWide.length === 0) return reading
  const range = { tenant: job.tenant, job: job.id, firstChunk: job.chunks, lastChunk: job.chunks }
  const jobWide = await openEntries({ codec }, reading, {
    entries: plan.jobWide, stored: await blocks.read(range),
  })
  return { ...reading, jobWide }
}

async function * read (
  parts: Parts, reading: Reading, { from, step }: { from: number, step: number }
): AsyncIterable<FeedRows> {
  const plans = reading.plan.chunks.filter(({ firstRow, rows }) => firstRow + rows > from)
  for (let at = 0; at < plans.length; at += step) {
    for (const { plan, merged } of await load(parts, reading, plans.slice(at, at + step))) {
      const rows = await repeatOriginals(parts, reading, merged)
      yield { rows: rows.slice(Math.max(0, from - plan.firstRow)), contacts: merged.contacts }
    }
  }
}

async function load (
  { blocks, codec }: Pick<Parts, 'blocks' | 'codec'>, reading: Reading, plans: readonly ChunkPlan[]
): Promise<readonly { readonly plan: ChunkPlan, readonly merged: MergedChunk }[]> {
  const { job, columns, jobWide, originals } = reading
  const numbers = plans.map(({ chunk }) => Math.max(chunk, 0))
  const stored = await blocks.read({
    tenant: job.tenant,
    job: job.id,
    firstChunk: Math.min(...numbers),
    lastChunk: Math.max(...numbers),
  })
  return await Promise.all(plans.map(async plan => {
    const open = await openEntries({ codec }, reading, { entries: plan.entries, stored })
    const merged = mergeChunk(plan, [...open, ...jobWide], columns)
    const own = stored.filter(({ digest }) => plan.entries.some(entry => entry.digest === digest))
    for (const index of own.flatMap(block => block.originals)) {
      const cells = merged.cells[index]
      if (cells !== undefined) originals.set(plan.firstRow + index + 1, cells)
    }
    return { plan, merged }
  }))
}

async function openEntries (
  { codec }: Pick<Parts, 'codec'>, { job, key }: Pick<Reading, 'job' | 'key'>,
  { entries, stored }: {
    readonly entries: readonly ManifestEntry[], readonly stored: readonly StoredBlock[]
  }
): Promise<readonly OpenBlock[]> {
  const byDigest = new Map(stored.map(block => [block.digest, block]))
  return await Promise.all(entries.map(async entry => {
    const block = byDigest.get(entry.digest)
    if (block === undefined) throw new MissingResultsError(`a block of ${job.id} has vanished`)
    const { chunk, part, chunks, rowsSchema } = block
    const place = {
      tenant: job.tenant,
      job: job.id,
      topic: 'rows.finished',
      chunk,
      part,
      chunks,
      rowsSchema,
      bound: Buffer.from(block.bound, 'hex'),
    } as const
    const bytes = unpack(openRows(key, place, block.sealed))
    const rows = await codec.decodeBare('rows.finished-rows', rowsSchema, bytes) as FinishedRows
    return { entry, rows }
  }))
}

/**
 * Originals come before their duplicates, so most have passed already. One that was not marked, or
 * stands before the first row of a page, is read for its own sake.
 */
async function repeatOriginals (
  parts: Parts, reading: Reading, merged: MergedChunk
): Promise<Rows> {
  const { plan, columns, originals } = reading
  const { firstRow, cells, duplicateOf } = merged
  if (duplicateOf.every(original => original === 0)) return cells
  const wanted = [...new Set(duplicateOf)].filter(row => row > 0 && !originals.has(row))
  for (const row of wanted.filter(row => row > firstRow)) {
    originals.set(row, cells[row - firstRow - 1] ?? [])
  }
  const elsewhere = Map.groupBy(wanted.filter(row => row <= firstRow), row =>
    plan.chunks.findLast(chunk => chunk.firstRow < row) as ChunkPlan)
  for (const [chunk, rows] of elsewhere) {
    const [found] = await load(parts, reading, [chunk])
    for (const row of rows) originals.set(row, found?.merged.cells[row - chunk.firstRow - 1] ?? [])
  }
  return cells.map((own, index) => {
    const original = duplicateOf[index] as number
    return original === 0 ? own : repeatOriginal(own, originals.get(original) ?? [], columns)
  })
}

async function pageOf (
  chunks: AsyncIterable<FeedRows>, { limit, keep = () => true }: PageOptions
): Promise<Page> {
  const kept: (readonly string[])[] = []
  for await (const { rows } of chunks) {
    for (const cells of rows) {
      if (!keep(cells)) continue
      if (kept.length === limit) return { rows: kept, nextAfterRow: Number(kept.at(-1)?.[0]) }
      kept.push(cells)
    }
  }
  return { rows: kept, nextAfterRow: undefined }
}
