import { setImmediate } from 'node:timers/promises'
import type { Normalized } from '../../schemas/types.ts'
import { laneOf } from '../lib/topics.ts'
import { placeOf } from '../records/place.ts'
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
    tokenVersion: head.tokenVersion,
    quotedAtMs: head.submittedAt,
    freshnessMs,
    partRows: partRows(lane, placeOf(head).service),
  }
}

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
  const chunks: Chunk[] = []
  const counts = { totalRows: 0, invalidRows: 0, duplicateRows: 0, cacheHits: 0, freshChecks: 0 }
  for (const message of parts) {
    const { rows, records } = await load(message)
    const place = placeOf(message.value)
    if (place.firstRow !== counts.totalRows) throw new Error('the chunks of a job leave no gap')
    dedupe.add(rows.tokens, (row) => rows.canonicals[row] === '')
    const hits = records.map((record) => usableHit(record, terms))
    const chunk = { place, rows, hits, originals: dedupe }
    addCounts(counts, place.rows, countRows(chunk))
    chunks.push(chunk)
    await setImmediate()
  }
  if (counts.totalRows !== totalRows) throw new Error('the chunks of a job hold all its rows')
  return { chunks, counts }
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
