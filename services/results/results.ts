import type { Job, ManifestEntry } from '../jobs/job.ts'
import { columnsOf, rowFieldsOf } from './columns.ts'
import { csvLine, CsvWriter } from './csv.ts'
import { type Contacts, createCellReader } from './merge.ts'
import { createChunkCsv, type ChunkCsv } from './merged-csv.ts'
import { openChunks, type ReadChunk, type ReadingDeps } from './read-chunks.ts'
import type { RowFilter } from './row-filter.ts'

/** Cells of some rows, in order, by the fields of the job's service. */
export type Rows = readonly (readonly string[])[]

/** Rows after `afterRow` (0 for the first page), at most `limit` of those that `keep` accepts. */
export type PageOptions = {
  readonly afterRow: number
  readonly limit: number
  readonly keep?: RowFilter
}

/** `safe` guards cells against formulas; `columns` and `keep` select cells and rows. */
export type CsvOptions = {
  readonly safe?: boolean
  readonly columns?: readonly string[]
  readonly keep?: RowFilter | undefined
}

/** `nextAfterRow` is undefined on the last page. */
export type Page = { readonly rows: Rows, readonly nextAfterRow: number | undefined }

export type Results = {
  /** All rows, by chunk; the first one comes after all blocks were found to exist. */
  readonly rows: (job: Job, manifest: readonly ManifestEntry[]) => AsyncIterable<Rows>
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
  async function * rows (job: Job, manifest: readonly ManifestEntry[]): AsyncIterable<Rows> {
    for await (const some of feedRows(job, manifest)) yield some.rows
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
      const { columns = columnsOf(job.service) } = options
      const csvOf = createCsv(job, options)
      const chunks = await openChunks(deps, { job, manifest, range: WHOLE })
      yield Buffer.from(csvLine(columns))
      for await (const chunk of chunks) {
        const lines = csvOf(chunk)
        if (lines.length > 0) yield lines
      }
    },
    page: async (job, manifest, options) => {
      const { afterRow: from, keep } = options
      const range = { from, firstChunks: keep === undefined ? 1 : FILTERED_CHUNKS, ahead: false }
      return await pageOf(await openChunks(deps, { job, manifest, range }), job, options)
    },
  }
}

/** Encodes chunks as CSV: whole ones without reading their cells, which takes far longer. */
function createCsv (
  job: Job, { safe = false, columns, keep }: CsvOptions
): (chunk: ReadChunk) => Buffer {
  if (columns !== undefined || keep !== undefined) {
    return createSelectedCsv(job, { safe, columns: columns ?? columnsOf(job.service), keep })
  }
  const csvOf: ChunkCsv = createChunkCsv(columnsOf(job.service), { safe })
  return ({ merged, repeated }) => csvOf(merged, repeated)
}

const SELECTED_SIZE_BYTES = 65_536

function createSelectedCsv (
  job: Job, { safe, columns, keep = () => true }: CsvOptions & Required<Pick<CsvOptions,
    'safe' | 'columns'>>
): (chunk: ReadChunk) => Buffer {
  const rowsOf = createRowReader(job)
  const fields = rowFieldsOf(job.service)
  const positions = columns.map(name => fields.indexOf(name))
  return (chunk) => {
    const writer = new CsvWriter({ safe, sizeBytes: SELECTED_SIZE_BYTES })
    for (const cells of rowsOf(chunk)) {
      if (!keep(cells)) continue
      for (const [index, position] of positions.entries()) {
        if (index > 0) writer.comma()
        writer.cell(cells[position] ?? '')
      }
      writer.endLine()
    }
    return writer.bytes()
  }
}

/** Reads the cells of a chunk, without the first `from` rows of the job. */
function createRowReader (job: Job): (chunk: ReadChunk, from?: number) => Rows {
  const cellsAt = createCellReader(rowFieldsOf(job.service))
  return ({ merged, repeated }, from = 0) => {
    const skipped = Math.max(0, from - merged.firstRow)
    return Array.from({ length: merged.rows - skipped }, (_, at) =>
      repeated.get(skipped + at) ?? cellsAt(merged, skipped + at))
  }
}

async function pageOf (
  chunks: AsyncIterable<ReadChunk>, job: Job, { afterRow, limit, keep = () => true }: PageOptions
): Promise<Page> {
  const rowsOf = createRowReader(job)
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
