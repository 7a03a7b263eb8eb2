import type { Journal, ToVerifyRows, NormalizedRows } from '../../schemas/types.ts'
import type { Emission } from '../engine/stage.ts'
import { yieldToEventLoop } from '../platform/event-loop.ts'
import { BLOCK_PARTS, createBlock, type DuplicateOutcome } from '../results/block.ts'
import { pickOthers, pickTokens, type CachedRecord } from '../cache/cache.ts'
import { SERVICES } from '../results/columns.ts'
import { isFresh } from '../cache/freshness.ts'
import { NO_FIELDS, outcomeOf, type RowOutcome } from '../results/outcome.ts'
import type { ChunkCoordinates } from '../results/chunk-coordinates.ts'
import type { Reason } from '../cache/record.ts'
import type { Lane } from '../topology.ts'
import type { Originals } from './dedupe.ts'

/** What holds for every chunk of a job. */
export type JobTerms = {
  readonly job: string
  readonly lane: Lane
  readonly forceFresh: boolean
  /** Redis time of the request, by which hits are judged. */
  readonly quotedAtMs: number
  readonly freshnessMs: number
  /** Rows a part holds at most. */
  readonly partRows: number
}

/** One chunk with what the whole job tells about it. */
export type Chunk = {
  readonly coordinates: ChunkCoordinates
  readonly rows: NormalizedRows
  /** What its tokens were made with: chunks differ where a cache secret was changed in between. */
  readonly tokenVersion: string
  /** One a row: the record that answers it, or undefined. */
  readonly hits: readonly (CachedRecord | undefined)[]
  readonly originals: Originals
}

export type ChunkCounts = {
  readonly invalidRows: number
  readonly duplicateRows: number
  readonly cacheHits: number
  readonly freshChecks: number
}

type RowKind = 'invalid' | 'duplicate' | 'hit' | 'missed'

/**
 * The record if it may answer a row of the job, else undefined. A record this very job paid for is
 * no hit: it exists only when the job is looked up once more after its checks, and taking it here
 * would give away what `verify` has to bill.
 */
export function usableHit (
  record: CachedRecord | undefined, terms: JobTerms
): CachedRecord | undefined {
  if (record === undefined || terms.forceFresh || record.job === terms.job) return undefined
  return isFresh(record, terms) ? record : undefined
}

/** Counts each row of a chunk in exactly one of the four ways a row can go. */
export function countRows (chunk: Chunk): ChunkCounts {
  const counts = { invalid: 0, duplicate: 0, hit: 0, missed: 0 }
  for (let row = 0; row < chunk.coordinates.rows; row++) counts[kindOf(chunk, row)]++
  return {
    invalidRows: counts.invalid,
    duplicateRows: counts.duplicate,
    cacheHits: counts.hit,
    freshChecks: counts.missed,
  }
}

/**
 * What is emitted for one chunk of an accepted job: the block with all its inputs and every row
 * that is finished already (invalid, duplicate, hit), and parts with the rows that need a check.
 * Every row of the chunk is in exactly one of them.
 */
export function emissionsOf (
  chunk: Chunk, terms: JobTerms
): readonly Emission<'rows.completed' | 'rows.to-verify'>[] {
  const { coordinates, rows } = chunk
  const { inputs, contacts } = rows
  const block = createBlock({ coordinates, part: BLOCK_PARTS.lookup, inputs, contacts })
  const missed: number[] = []
  for (let row = 0; row < coordinates.rows; row++) {
    const kind = kindOf(chunk, row)
    if (kind === 'missed') missed.push(row)
    else if (kind === 'invalid') block.add(row, invalidOutcome(rows, row, terms))
    else if (kind === 'hit') block.add(row, hitOutcome(chunk, row, terms))
    else block.add(row, duplicateOutcome(chunk, row))
  }
  return [block.emission(terms.lane), ...partsOf(chunk, missed, terms)]
}

type EmitOptions = { readonly terms: JobTerms, readonly entry: Journal | undefined }

/**
 * What is emitted for an accepted job: blocks and parts of every chunk, then the journal entry of
 * its reservation if there is one to send. Others get their turn in between.
 */
export async function jobEmissions (
  chunks: readonly Chunk[], { terms, entry }: EmitOptions
): Promise<readonly Emission<'rows.completed' | 'rows.to-verify' | 'wallet.journal'>[]> {
  const emits: Emission<'rows.completed' | 'rows.to-verify' | 'wallet.journal'>[] = []
  for (const chunk of chunks) {
    await yieldToEventLoop(terms.lane, chunk.coordinates.tenant)
    // The block with the inputs of a chunk goes first, its parts right behind it.
    emits.push(...emissionsOf(chunk, terms))
  }
  return entry === undefined ? emits : [...emits, journalOf(entry, terms.lane)]
}

/** The entry of a reservation, on its way to the journal. */
export function journalOf (entry: Journal, lane: Lane): Emission<'wallet.journal'> {
  return { topic: 'wallet.journal', lane, value: entry, rows: undefined }
}

function kindOf ({ coordinates, rows, hits, originals }: Chunk, row: number): RowKind {
  if (rows.canonicals[row] === '') return 'invalid'
  if (originals.originalOf(coordinates.firstRow + row) >= 0) return 'duplicate'
  return hits[row] === undefined ? 'missed' : 'hit'
}

/** The only place where an index from 0 becomes the row number of the result file. */
function duplicateOutcome ({ coordinates, rows, originals }: Chunk, row: number): DuplicateOutcome {
  const isEmail = SERVICES[coordinates.service].kind === 'email'
  return {
    source: 'duplicate',
    duplicateOf: originals.originalOf(coordinates.firstRow + row) + 1,
    ...isEmail && { email: rows.canonicals[row] ?? '' },
  }
}

/** The time of the quote stands for the decision, so a replay stores the same row again. */
function invalidOutcome (rows: NormalizedRows, row: number, terms: JobTerms): RowOutcome {
  return {
    status: 'invalid',
    reason: (rows.reasons[row] ?? '') as Reason,
    source: 'preflight',
    confidence: 100,
    checkedAtMs: terms.quotedAtMs,
    expiresAtMs: terms.quotedAtMs,
    fields: NO_FIELDS,
    contact: {},
    copies: 0,
  }
}

function hitOutcome (
  { coordinates, rows, hits, originals }: Chunk, row: number, { freshnessMs }: JobTerms
): RowOutcome {
  const record = hits[row]
  if (record === undefined) throw new Error('a hit has a record')
  const subject = {
    service: coordinates.service,
    canonical: rows.canonicals[row] ?? '',
    copies: originals.copiesOf(coordinates.firstRow + row),
  }
  return outcomeOf(record, subject, { source: 'cache', freshnessMs })
}

function partsOf (
  chunk: Chunk, missed: readonly number[], terms: JobTerms
): readonly Emission<'rows.to-verify'>[] {
  const parts: Emission<'rows.to-verify'>[] = []
  for (let from = 0; from < missed.length; from += terms.partRows) {
    const rows = rowsToVerify(chunk, missed.slice(from, from + terms.partRows))
    parts.push({
      topic: 'rows.to-verify',
      lane: terms.lane,
      service: chunk.coordinates.service,
      value: {
        ...chunk.coordinates,
        part: parts.length,
        quotedAt: terms.quotedAtMs,
        forceFresh: terms.forceFresh,
        tokenVersion: chunk.tokenVersion,
        freshnessMs: terms.freshnessMs,
        attempt: 0,
        notBefore: 0,
        giveUpAt: 0,
      },
      rows,
    })
  }
  return parts
}

function rowsToVerify (
  { coordinates, rows, originals }: Chunk, missed: readonly number[]
): ToVerifyRows {
  return {
    rows: missed,
    copies: missed.map((row) => originals.copiesOf(coordinates.firstRow + row)),
    canonicals: missed.map((row) => rows.canonicals[row] ?? ''),
    tokens: pickTokens(rows.tokens, missed),
    otherTokens: pickOthers(rows.otherTokens, missed),
  }
}
