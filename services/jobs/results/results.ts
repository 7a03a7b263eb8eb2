import type { Job, ManifestEntry } from '../job.ts'
import { eventLoop } from '../../runtime/platform/event-loop.ts'
import { type StoredBlock, withInlineResults } from './result-blocks.ts'
import { rowFieldsOf } from './columns.ts'
import { createCsv, csvHeader, type CsvOptions } from './result-csv.ts'
import { csvLine } from './csv.ts'
import { type Contacts, createCellReader, referenceAt } from './merge.ts'
import { openChunks, type ReadChunk, type ReadingDeps } from './read-chunks.ts'
import { FILTER_COLUMNS } from '../../../schemas/api/results.ts'
import type { ServiceSlug } from '../../topology.ts'

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
export function createResults (deps: ReadingDeps): Results {
  async function * rows (
    job: Job, manifest: readonly ManifestEntry[], options: RowOptions = {}
  ): AsyncIterable<Rows> {
    const { afterRow = 0, limit = Infinity, keep, inlineResults = [] } = options
    const rowsOf = createRowReader(job, options)
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
      yield Buffer.from(csvLine(csvHeader(job, options), options.delimiter))
      for await (const chunk of chunks) {
        for (let row = 0; row < chunk.merged.rows;) {
          const { lines, nextRow } = csvOf(chunk, row)
          if (lines.length > 0) yield lines
          // Further pieces of a chunk are made only for many columns.
          if (nextRow < chunk.merged.rows) await eventLoop.yield('bulk', job.tenant)
          row = nextRow
        }
      }
    },
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
      return withReference ? [...cells, referenceAt(merged, skipped + at)] : cells
    })
  }
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
  const fields = rowFieldsOf(service)
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
