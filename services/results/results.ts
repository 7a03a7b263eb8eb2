import type { Job, ManifestEntry } from '../jobs/job.ts'
import { type StoredBlock, withAttachedBlocks } from './result-blocks.ts'
import { columnsOf, rowFieldsOf } from './columns.ts'
import { csvLine, CsvWriter } from './csv.ts'
import { type Contacts, createCellReader } from './merge.ts'
import { type ChunkCsv, createChunkCsv, createOriginalWriter } from './merged-csv.ts'
import { joinedColumns, joinedHeader } from './original.ts'
import { openChunks, type ReadChunk, type ReadingDeps } from './read-chunks.ts'
import type { RowFilter } from './row-filter.ts'

/** Cells of some rows, in order, by the fields of the job's service. */
export type Rows = readonly (readonly string[])[]

/** `withReference`: each row ends with what its sender gave with it, as one more cell. */
type RowOptions = { readonly withReference?: boolean }

/**
 * Rows after `afterRow` (0 for the first page), at most `limit` of those that `keep` accepts.
 * `attached`: blocks of the job that are in memory already.
 */
export type PageOptions = RowOptions & {
  readonly afterRow: number
  readonly limit: number
  readonly keep?: RowFilter
  readonly attached?: readonly StoredBlock[]
}

/**
 * `safe` guards cells against formulas; `columns` and `keep` select cells and rows; `original` puts
 * the customer's columns of these names before them.
 */
export type CsvOptions = {
  readonly safe?: boolean
  readonly columns?: readonly string[]
  readonly keep?: RowFilter | undefined
  readonly original?: readonly string[] | undefined
}

/** `nextAfterRow` is undefined on the last page. */
export type Page = { readonly rows: Rows, readonly nextAfterRow: number | undefined }

export type Results = {
  /** All rows, by chunk; the first one comes after all blocks were found to exist. */
  readonly rows: (
    job: Job, manifest: readonly ManifestEntry[], options?: RowOptions
  ) => AsyncIterable<Rows>
  /** The result file in buffers of whole lines; the first one is the header. */
  readonly csvStream: (
    job: Job, manifest: readonly ManifestEntry[], options?: CsvOptions
  ) => AsyncIterable<Uint8Array>
  /** All rows of a feed job, with their contacts. */
  readonly feedRows: (job: Job, manifest: readonly ManifestEntry[]) => AsyncIterable<FeedRows>
  readonly page: (
    job: Job, manifest: readonly ManifestEntry[], options: PageOptions
  ) => Promise<Page>
}

/** Rows of one chunk; `contacts` is undefined if the block with them is lost. */
export type FeedRows = { readonly rows: Rows, readonly contacts: Contacts | undefined }

/** Decrypting this many takes about as long as the next query. */
const FIRST_CHUNKS = 8
const FILTERED_CHUNKS = 5
const WHOLE = { from: 0, firstChunks: FIRST_CHUNKS, ahead: true }

/**
 * Reads the results of jobs: exactly the blocks of the manifest, and of each the rows it won.
 * Throws MissingResultsError before the first row when a block is not stored, its subclass
 * LostResultsError when the results cannot be decrypted any more, ResultsError when the blocks do
 * not form the job, SealError when one was changed.
 */
export function createResults (deps: ReadingDeps): Results {
  async function * rows (
    job: Job, manifest: readonly ManifestEntry[], options: RowOptions = {}
  ): AsyncIterable<Rows> {
    const rowsOf = createRowReader(job, options)
    const chunks = await openChunks(deps, { job, manifest, range: WHOLE })
    for await (const chunk of chunks) yield rowsOf(chunk)
  }
  async function * feedRows (job: Job, manifest: readonly ManifestEntry[]) {
    const rowsOf = createRowReader(job)
    for await (const chunk of await openChunks(deps, { job, manifest, range: WHOLE })) {
      yield { rows: rowsOf(chunk), contacts: chunk.merged.contacts }
    }
  }
  return {
    rows,
    feedRows,
    csvStream: async function * (job, manifest, options = {}) {
      const csvOf = createCsv(job, options)
      const chunks = await openChunks(deps, { job, manifest, range: WHOLE })
      yield Buffer.from(csvLine(headerOf(job, options)))
      for await (const chunk of chunks) {
        const lines = csvOf(chunk)
        if (lines.length > 0) yield lines
      }
    },
    page: async (job, manifest, options) => {
      const { afterRow: from, keep, attached = [] } = options
      const blocks = withAttachedBlocks(deps.blocks, attached)
      const range = { from, firstChunks: keep === undefined ? 1 : FILTERED_CHUNKS, ahead: false }
      const chunks = await openChunks({ ...deps, blocks }, { job, manifest, range })
      return await pageOf(chunks, job, options)
    },
  }
}

function columnsIn (job: Job, { columns, original }: CsvOptions): readonly string[] {
  const all = columnsOf(job.service)
  return columns ?? (original === undefined ? all : joinedColumns(all))
}

function headerOf (job: Job, options: CsvOptions): readonly string[] {
  const columns = columnsIn(job, options)
  const { original, safe = false } = options
  return original === undefined ? columns : joinedHeader({ columns: original, safe }, columns)
}

/** Encodes chunks as CSV: whole ones without reading their cells, which takes far longer. */
function createCsv (job: Job, options: CsvOptions): (chunk: ReadChunk) => Buffer {
  if (options.columns !== undefined || options.keep !== undefined) {
    return createSelectedCsv(job, options)
  }
  const { safe = false, original } = options
  const csvOf: ChunkCsv = createChunkCsv(columnsOf(job.service), {
    safe, ...original && { original: { columns: original, safe } },
  })
  return ({ merged, repeated }) => csvOf(merged, repeated)
}

const SELECTED_SIZE_BYTES = 65_536

function createSelectedCsv (job: Job, options: CsvOptions): (chunk: ReadChunk) => Buffer {
  const { safe = false, keep = () => true, original } = options
  const rowsOf = createRowReader(job)
  const fields = rowFieldsOf(job.service)
  const positions = columnsIn(job, options).map(name => fields.indexOf(name))
  const begin = original && createOriginalWriter({ columns: original, safe })
  return (chunk) => {
    const writer = new CsvWriter({ safe, sizeBytes: SELECTED_SIZE_BYTES })
    for (const [row, cells] of rowsOf(chunk).entries()) {
      if (!keep(cells)) continue
      begin?.(writer, chunk.merged, row)
      for (const [index, position] of positions.entries()) {
        if (index > 0 || begin !== undefined) writer.comma()
        writer.cell(cells[position] ?? '')
      }
      writer.endLine()
    }
    return writer.bytes()
  }
}

/** Reads the cells of a chunk, without the first `from` rows of the job. */
function createRowReader (
  job: Job, { withReference = false }: RowOptions = {}
): (chunk: ReadChunk, from?: number) => Rows {
  const cellsAt = createCellReader(rowFieldsOf(job.service))
  return ({ merged, repeated }, from = 0) => {
    const skipped = Math.max(0, from - merged.firstRow)
    return Array.from({ length: merged.rows - skipped }, (_, at) => {
      const cells = repeated.get(skipped + at) ?? cellsAt(merged, skipped + at)
      return withReference ? [...cells, merged.contacts?.references[skipped + at] ?? ''] : cells
    })
  }
}

async function pageOf (
  chunks: AsyncIterable<ReadChunk>, job: Job, options: PageOptions
): Promise<Page> {
  const { afterRow, limit, keep = () => true } = options
  const rowsOf = createRowReader(job, options)
  const kept: (readonly string[])[] = []
  for await (const chunk of chunks) {
    for (const cells of rowsOf(chunk, afterRow)) {
      if (!keep(cells)) continue
      if (kept.length === limit) return { rows: kept, nextAfterRow: Number(kept.at(-1)?.[0]) }
      kept.push(cells)
    }
  }
  return { rows: kept, nextAfterRow: undefined }
}
