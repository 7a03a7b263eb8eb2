import type { Job, ManifestEntry } from '../job.ts'
import { yieldToEventLoop } from '../../runtime/platform/event-loop.ts'
import { type StoredBlock, withAttachedBlocks } from './result-blocks.ts'
import { columnsOf, rowFieldsOf } from './columns.ts'
import { csvLine, CsvWriter } from './csv.ts'
import { type Contacts, createCellReader } from './merge.ts'
import {
  type ChunkCsv, createChunkCsv, createOriginalWriter, type CsvPiece, PIECE_BYTES,
} from './merged-csv.ts'
import { joinedColumns, joinedHeader } from './original.ts'
import { openChunks, type ReadChunk, type ReadingDeps } from './read-chunks.ts'
import type { RowFilter } from './row-filter.ts'

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

export type Results = {
  /** Rows in order, by chunk; the first ones come after all blocks were found to exist. */
  readonly rows: (
    job: Job, manifest: readonly ManifestEntry[], options?: RowOptions
  ) => AsyncIterable<Rows>
  /** The result file in pieces of whole lines; the first one is the header. */
  readonly csvStream: (
    job: Job, manifest: readonly ManifestEntry[], options?: CsvOptions
  ) => AsyncIterable<Uint8Array>
  /** All rows of a feed job, with their contacts. */
  readonly feedRows: (job: Job, manifest: readonly ManifestEntry[]) => AsyncIterable<FeedRows>
}

/** Rows of one chunk; `contacts` is undefined if the block with them is lost. */
export type FeedRows = { readonly rows: Rows, readonly contacts: Contacts | undefined }

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
export function createResults (deps: ReadingDeps): Results {
  async function * rows (
    job: Job, manifest: readonly ManifestEntry[], options: RowOptions = {}
  ): AsyncIterable<Rows> {
    const { afterRow = 0, limit = Infinity, keep, attached = [] } = options
    const rowsOf = createRowReader(job, options)
    const blocks = withAttachedBlocks(deps.blocks, attached)
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
      const read = rowsOf(chunk, afterRow)
      const kept = (keep === undefined ? read : read.filter(keep)).slice(0, left)
      left -= kept.length
      if (kept.length > 0) yield kept
      if (left === 0) return
    }
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
        for (let row = 0; row < chunk.merged.rows;) {
          const { lines, nextRow } = csvOf(chunk, row)
          if (lines.length > 0) yield lines
          // Further pieces of a chunk are made only for many columns.
          if (nextRow < chunk.merged.rows) await yieldToEventLoop('bulk', job.tenant)
          row = nextRow
        }
      }
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
function createCsv (job: Job, options: CsvOptions): (chunk: ReadChunk, from: number) => CsvPiece {
  if (options.columns !== undefined || options.keep !== undefined) {
    return createSelectedCsv(job, options)
  }
  const { safe = false, original } = options
  const csvOf: ChunkCsv = createChunkCsv(columnsOf(job.service), {
    safe, ...original && { original: { columns: original, safe } },
  })
  return ({ merged, repeated }, from) => csvOf(merged, repeated, from)
}

const SELECTED_SIZE_BYTES = 65_536

function createSelectedCsv (
  job: Job, options: CsvOptions
): (chunk: ReadChunk, from: number) => CsvPiece {
  const { safe = false, keep = () => true, original } = options
  const fields = rowFieldsOf(job.service)
  const cellsAt = createCellReader(fields)
  const positions = columnsIn(job, options).map(name => fields.indexOf(name))
  const begin = original && createOriginalWriter({ columns: original, safe })
  return (chunk, from) => {
    const { merged, repeated } = chunk
    const writer = new CsvWriter({ safe, sizeBytes: SELECTED_SIZE_BYTES })
    let row = from
    for (; row < merged.rows && writer.length < PIECE_BYTES; row++) {
      const cells = repeated.get(row) ?? cellsAt(merged, row)
      if (!keep(cells)) continue
      begin?.(writer, merged, row)
      for (const [index, position] of positions.entries()) {
        if (index > 0 || begin !== undefined) writer.comma()
        writer.cell(cells[position] ?? '')
      }
      writer.endLine()
    }
    return { lines: writer.bytes(), nextRow: row }
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
