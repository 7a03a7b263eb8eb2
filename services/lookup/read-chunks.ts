import { hash } from 'node:crypto'
import type { Normalized } from '../../schemas/types.ts'
import { InconsistencyError } from '../platform/errors.ts'
import { laneOf } from '../platform/topics.ts'
import { yieldToEventLoop } from '../platform/event-loop.ts'
import { type ChunkCoordinates, coordinatesOf } from '../results/block.ts'
import { TOKEN_BYTES } from '../cache/tokens.ts'
import type { Lane, ServiceSlug } from '../topology.ts'
import type { PreflightCounts } from './accept.ts'
import { type Chunk, type ChunkCounts, countRows, type JobTerms, usableHit } from './emissions.ts'
import { Dedupe } from './dedupe.ts'
import type { ChunkMessage, Loader } from './chunk-loader.ts'

/** Maximum number of rows of a verification batch. */
export type BatchRows = (lane: Lane, service: ServiceSlug) => number

/** The terms common to all chunks of a job, from the envelope of one of them. */
export function jobTermsOf (
  head: Normalized, freshnessMs: number, batchRows: BatchRows
): JobTerms {
  const lane = laneOf(head.totalRows)
  return {
    job: head.job,
    lane,
    forceFresh: head.forceFresh,
    quotedAtMs: head.submittedAt,
    freshnessMs,
    batchRows: batchRows(lane, coordinatesOf(head).service),
  }
}

/** Number of chunks to prefetch. */
const PREFETCH = 4

type ReadOptions = { readonly terms: JobTerms, readonly load: Loader }

/**
 * Loads the chunks of a job in row order and counts their rows.
 * @throws InconsistencyError when a chunk is missing, or rows do not match their envelope.
 */
export async function readChunks (
  messages: readonly ChunkMessage[], { terms, load }: ReadOptions
): Promise<{ readonly chunks: readonly Chunk[], readonly counts: PreflightCounts }> {
  const { totalRows } = messages[0]?.value ?? { totalRows: 0 }
  const dedupe = new Dedupe(totalRows)
  const isMixed = new Set(messages.map(({ value }) => value.tokenVersion)).size > 1
  const chunks: Chunk[] = []
  const counts = { totalRows: 0, invalidRows: 0, duplicateRows: 0, cacheHits: 0, freshChecks: 0 }
  for (const message of messages) {
    const next = messages[chunks.length + PREFETCH]
    if (next !== undefined) load.prefetch(next)
    const { rows, records } = await load(message)
    const coordinates = coordinatesOf(message.value)
    if (coordinates.firstRow !== counts.totalRows) {
      throw discontinuityError(terms.job, coordinates, counts.totalRows)
    }
    const tokens = isMixed ? digestsOf(rows.canonicals) : rows.tokens
    dedupe.add(tokens, (row) => rows.canonicals[row] === '')
    const hits = records.map((record) => usableHit(record, terms))
    const { tokenVersion } = message.value
    const chunk = { coordinates, rows, tokenVersion, hits, duplicates: dedupe }
    addCounts(counts, coordinates.rows, countRows(chunk))
    chunks.push(chunk)
    await yieldToEventLoop(terms.lane, coordinates.tenant)
  }
  if (counts.totalRows !== totalRows) {
    throw new InconsistencyError(`the chunks of job ${terms.job} have ${counts.totalRows} rows, ` +
      `expected ${totalRows}`)
  }
  return { chunks, counts }
}

/** A chunk is missing, or one reaches into the next. Rows count from 0. */
function discontinuityError (
  job: string, { chunk, firstRow }: ChunkCoordinates, expected: number
): Error {
  return new InconsistencyError(firstRow > expected
    ? `rows ${expected}-${firstRow - 1} of job ${job} are missing before chunk ${chunk}`
    : `chunk ${chunk} of job ${job} starts at row ${firstRow}, expected ${expected}`)
}

/**
 * Digests that identify contacts if chunks have tokens of different versions, because the cache
 * secret was rotated while the job was normalized.
 */
function digestsOf (canonicals: readonly string[]): Buffer {
  return Buffer.concat(canonicals.map((canonical) =>
    hash('sha256', canonical, 'buffer').subarray(0, TOKEN_BYTES)))
}

function addCounts (
  total: { -readonly [Name in keyof PreflightCounts]: number }, rows: number, chunk: ChunkCounts
): void {
  total.totalRows += rows
  total.invalidRows += chunk.invalidRows
  total.duplicateRows += chunk.duplicateRows
  total.cacheHits += chunk.cacheHits
  total.freshChecks += chunk.freshChecks
}
