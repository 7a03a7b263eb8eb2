import { createHash } from 'node:crypto'
import type { ListAction } from '../../schemas/api/contact-lists.ts'
import { MAX_SAMPLE_ROWS, MIN_SAMPLE_ROWS, ROWS_PER_SAMPLE_ROW } from '../../schemas/api/quote.ts'
import type { Normalized, NormalizedRows } from '../../schemas/types.ts'
import { type CachedRecord, isFresh } from '../cache/entries.ts'
import { TOKEN_BYTES } from '../cache/tokens.ts'
import type { QuoteSample } from '../jobs/job.ts'
import { hasOptions } from '../jobs/options.ts'
import type { ChunkCoordinates } from '../jobs/results/block.ts'
import { eventLoop } from '../runtime/platform/event-loop.ts'
import type { Lane } from '../topology.ts'

/** Terms common to all chunks of a job. */
export type JobTerms = {
  readonly job: string
  readonly lane: Lane
  readonly forceFresh: boolean
  readonly options?: Normalized['options']
  /** Redis time of the request, which decides whether hits are fresh. */
  readonly quotedAtMs: number
  readonly freshnessMs: number
  /** Maximum number of rows of a verification batch. */
  readonly batchRows: number
}

/** The duplicates of a job, by row index (from 0) in the job. */
export type Duplicates = {
  /** The index of the original of each row; -1 if the row is not a duplicate. */
  readonly originals: Int32Array
  /** The number of duplicates of each row. */
  readonly copies: Uint32Array
}

/** One chunk, with the duplicates of the whole job. */
export type Chunk = {
  readonly coordinates: ChunkCoordinates
  readonly rows: NormalizedRows
  /** The version of its tokens; chunks of a job differ during a rotation of the cache secret. */
  readonly tokenVersion: string
  /** By row, the cached record or undefined. */
  readonly hits: readonly (CachedRecord | undefined)[]
  /** By row, what the organization's lists say; empty without lists. */
  readonly listed: readonly (ListAction | undefined)[]
  readonly duplicates: Duplicates
}

export type ChunkCounts = {
  readonly invalidRows: number
  readonly duplicateRows: number
  readonly cacheHits: number
  readonly freshChecks: number
}

export type RowKind = 'invalid' | 'refused' | 'duplicate' | 'hit' | 'toVerify'

/**
 * The record if it can be used for a row of the job. A record that this job paid for is not a hit:
 * it exists only when the job is looked up again after its checks, and as a hit it would not be
 * charged.
 */
export function usableHit (
  record: CachedRecord | undefined, terms: JobTerms
): CachedRecord | undefined {
  if (record === undefined || terms.forceFresh || record.job === terms.job) return undefined
  return isFresh(record, terms) && hasOptions(record.fields, terms.options) ? record : undefined
}

/** Counts each row of a chunk; those that lists refuse are free like invalid ones. */
export function countRows (chunk: Chunk): ChunkCounts {
  const counts = { invalid: 0, refused: 0, duplicate: 0, hit: 0, toVerify: 0 }
  for (let row = 0; row < chunk.coordinates.rows; row++) counts[classifyRow(chunk, row)]++
  return {
    invalidRows: counts.invalid + counts.refused,
    duplicateRows: counts.duplicate,
    cacheHits: counts.hit,
    freshChecks: counts.toVerify,
  }
}

/** The kind of a row, which decides whether it is complete or has to be verified. */
export function classifyRow (chunk: Chunk, row: number): RowKind {
  const { rows, hits } = chunk
  if (rows.canonicals[row] === '') return 'invalid'
  if (originalOf(chunk, row) >= 0) return 'duplicate'
  const action = chunk.listed[row]
  if (action !== undefined) return action === 'allow' ? 'hit' : 'refused'
  return hits[row] === undefined ? 'toVerify' : 'hit'
}

/** The index in the job of the original of a row; -1 if the row is not a duplicate. */
export function originalOf ({ coordinates, duplicates }: Chunk, row: number): number {
  return duplicates.originals[coordinates.firstRow + row] ?? -1
}

const DIGEST_CHARACTERS = 32

type Candidate = { readonly token: Buffer, readonly row: number }

/**
 * The rows that stand for a list: of the contacts that a job would verify or find in the cache,
 * those with the smallest tokens. Tokens are HMACs of canonical forms, so nobody can choose the
 * rows, and the order, the spelling and the duplicates of a list change nothing. A few more
 * contacts rarely do. undefined for a list that is too small.
 */
export async function chooseSample (
  chunks: readonly Chunk[], { lane }: Pick<JobTerms, 'lane'>
): Promise<QuoteSample | undefined> {
  const smallest: Candidate[] = []
  let contacts = 0
  for (const chunk of chunks) {
    contacts += addSmallest(smallest, chunk)
    await eventLoop.yield(lane, chunk.coordinates.tenant)
  }
  const size = Math.min(MAX_SAMPLE_ROWS, Math.floor(contacts / ROWS_PER_SAMPLE_ROW))
  if (size < MIN_SAMPLE_ROWS) return undefined
  const chosen = smallest.slice(0, size)
  // The tokens of two services may be the same, as they share a cache.
  const digest = createHash('sha256').update(chunks[0]?.coordinates.service ?? '')
  for (const { token } of chosen) digest.update(token)
  return {
    digest: digest.digest('hex').slice(0, DIGEST_CHARACTERS), rows: chosen.map(({ row }) => row),
  }
}

/** Keeps the smallest tokens, in their order. Returns the number of contacts in the chunk. */
function addSmallest (smallest: Candidate[], chunk: Chunk): number {
  const { coordinates: { firstRow, rows }, rows: { tokens } } = chunk
  let contacts = 0
  for (let row = 0; row < rows; row++) {
    const kind = classifyRow(chunk, row)
    if (kind !== 'hit' && kind !== 'toVerify') continue
    contacts++
    const from = row * TOKEN_BYTES
    const last = smallest.length === MAX_SAMPLE_ROWS ? smallest.at(-1) : undefined
    const isLarger = last !== undefined &&
      last.token.compare(tokens, from, from + TOKEN_BYTES) <= 0
    if (isLarger) continue
    const token = tokens.subarray(from, from + TOKEN_BYTES)
    const place = smallest.findIndex(other => other.token.compare(token) > 0)
    smallest.splice(place < 0 ? smallest.length : place, 0, { token, row: firstRow + row })
    if (smallest.length > MAX_SAMPLE_ROWS) smallest.pop()
  }
  return contacts
}
