import { hash } from 'node:crypto'
import type { Normalized } from '../../schemas/types.ts'
import { laneOf } from '../platform/topics.ts'
import { yieldToEventLoop } from '../platform/event-loop.ts'
import { coordinatesOf } from '../results/chunk-coordinates.ts'
import { TOKEN_BYTES } from '../cache/tokens.ts'
import type { Lane, ServiceSlug } from '../topology.ts'
import type { Counts } from './accept.ts'
import { countRows, usableHit, type Chunk, type ChunkCounts, type JobTerms } from './decide.ts'
import { createDedupe } from './dedupe.ts'
import type { ChunkMessage, Loader } from './load.ts'

/** Rows a part holds at most. */
export type PartRows = (lane: Lane, service: ServiceSlug) => number

/** What holds for every chunk of the job that the envelope names. */
export function termsOf (
  head: Normalized, freshnessMs: number, partRows: PartRows
): JobTerms {
  const lane = laneOf(head.totalRows)
  return {
    job: head.job,
    lane,
    forceFresh: head.forceFresh,
    quotedAtMs: head.submittedAt,
    freshnessMs,
    partRows: partRows(lane, coordinatesOf(head).service),
  }
}

/** Chunks that are asked for while one is read. */
const AHEAD = 4

type ReadOptions = { readonly terms: JobTerms, readonly load: Loader }

/**
 * The chunks of a job in row order, each counted once all before it have told their originals.
 * Rejects when a chunk can't be read or the chunks do not make up the job.
 */
export async function readChunks (
  parts: readonly ChunkMessage[], { terms, load }: ReadOptions
): Promise<{ readonly chunks: readonly Chunk[], readonly counts: Counts }> {
  const { totalRows } = parts[0]?.value ?? { totalRows: 0 }
  const dedupe = createDedupe(totalRows)
  const isMixed = new Set(parts.map(({ value }) => value.tokenVersion)).size > 1
  const chunks: Chunk[] = []
  const counts = { totalRows: 0, invalidRows: 0, duplicateRows: 0, cacheHits: 0, freshChecks: 0 }
  for (const message of parts) {
    const next = parts[chunks.length + AHEAD]
    if (next !== undefined) load.ahead(next)
    const { rows, records } = await load(message)
    const coordinates = coordinatesOf(message.value)
    const { chunk: number, firstRow } = coordinates
    if (firstRow !== counts.totalRows) {
      throw new Error(`chunk ${number} of the job starts at row ${firstRow}, expected ` +
        `${counts.totalRows}: a chunk before it is missing`)
    }
    const tokens = isMixed ? digestsOf(rows.canonicals) : rows.tokens
    dedupe.add(tokens, (row) => rows.canonicals[row] === '')
    const hits = records.map((record) => usableHit(record, terms))
    const { tokenVersion } = message.value
    const chunk = { coordinates, rows, tokenVersion, hits, originals: dedupe }
    addCounts(counts, coordinates.rows, countRows(chunk))
    chunks.push(chunk)
    await yieldToEventLoop(terms.lane, coordinates.tenant)
  }
  if (counts.totalRows !== totalRows) throw new Error('the chunks of a job hold all its rows')
  return { chunks, counts }
}

/**
 * What tells contacts apart where tokens do not: those of chunks whose job was normalized while the
 * cache secret was changed are of different versions.
 */
function digestsOf (canonicals: readonly string[]): Buffer {
  return Buffer.concat(canonicals.map((canonical) =>
    hash('sha256', canonical, 'buffer').subarray(0, TOKEN_BYTES)))
}

function addCounts (
  total: { -readonly [Name in keyof Counts]: number }, rows: number, chunk: ChunkCounts
): void {
  total.totalRows += rows
  total.invalidRows += chunk.invalidRows
  total.duplicateRows += chunk.duplicateRows
  total.cacheHits += chunk.cacheHits
  total.freshChecks += chunk.freshChecks
}
