import type { Journal, NormalizedRows, ToVerifyRows } from '../../schemas/types.ts'
import { isUndecided, type Reason } from '../../schemas/api/verdicts.ts'
import type { Emission } from '../runtime/engine/stage.ts'
import { eventLoop } from '../runtime/platform/event-loop.ts'
import { NO_BATCH, createBlock, type DuplicateOutcome } from '../jobs/results/block.ts'
import { pickRotated, pickTokens } from '../cache/tokens.ts'
import { SERVICE_DEFINITIONS } from '../jobs/results/columns.ts'
import {
  listedOutcome, NO_FIELDS, type RowOutcome, rowOutcomeOf, withoutVerdict,
} from '../jobs/results/outcome.ts'
import type { Lane } from '../topology.ts'
import { type Chunk, classifyRow, type JobTerms, originalOf } from './row-kinds.ts'

type EmitOptions = {
  readonly terms: JobTerms
  readonly entry: Journal | undefined
  /** Rows that the reservation of the job pays for. */
  readonly reservedRows: number
}

/**
 * The emissions for an accepted job: blocks and verification batches of every chunk, then the
 * journal entry of its reservation if it is not shipped yet. Yields to other jobs between chunks.
 */
export async function jobEmissions (
  chunks: readonly Chunk[], { terms, entry, reservedRows }: EmitOptions
): Promise<readonly Emission<'rows.completed' | 'rows.to-verify' | 'wallet.journal'>[]> {
  const emits: Emission<'rows.completed' | 'rows.to-verify' | 'wallet.journal'>[] = []
  let payable = reservedRows
  for (const chunk of chunks) {
    await eventLoop.yield(terms.lane, chunk.coordinates.tenant)
    const { toVerify, block } = chunkEmissions(chunk, terms, payable)
    payable -= toVerify.length
    // The block with the inputs of a chunk goes first, then its verification batches.
    emits.push(block, ...batchesOf(chunk, toVerify, terms))
  }
  return entry === undefined ? emits : [...emits, journalEmission(entry, terms.lane)]
}

/**
 * The block with all inputs of a chunk and all completed rows (invalid, duplicate, hit), and the
 * other rows, which are to be verified. Every row is in exactly one of them. There are more rows to
 * verify than are reserved for only if entries of the organization's lists were removed after the
 * job was accepted: what nothing is reserved for ends without a verdict.
 */
function chunkEmissions (
  chunk: Chunk, terms: JobTerms, payable: number
): { readonly block: Emission<'rows.completed'>, readonly toVerify: readonly number[] } {
  const { coordinates, rows } = chunk
  const { inputs, contacts } = rows
  const block = createBlock({ coordinates, batch: NO_BATCH.lookup, inputs, contacts })
  const toVerify: number[] = []
  for (let row = 0; row < coordinates.rows; row++) {
    const kind = classifyRow(chunk, row)
    if (kind === 'toVerify' && toVerify.length < payable) toVerify.push(row)
    else if (kind === 'toVerify') block.add(row, unpaidOutcome(chunk, row, terms))
    else if (kind === 'invalid') block.add(row, invalidOutcome(rows, row, terms))
    else if (kind === 'duplicate') block.add(row, duplicateOutcome(chunk, row))
    else block.add(row, answeredOutcome(chunk, row, terms))
  }
  return { block: block.emission(terms.lane), toVerify }
}

const unpaidOutcome = (chunk: Chunk, row: number, { quotedAtMs: atMs }: JobTerms): RowOutcome =>
  withoutVerdict('internal', { atMs, subject: contactAt(chunk, row) })

/** The emission of the journal entry of a reservation. */
export function journalEmission (entry: Journal, lane: Lane): Emission<'wallet.journal'> {
  return { topic: 'wallet.journal', lane, value: entry, rows: undefined }
}

/** The number of duplicates of a row. */
function copiesOf ({ coordinates, duplicates }: Chunk, row: number): number {
  return duplicates.copies[coordinates.firstRow + row] ?? 0
}

/** `duplicateOf` is the row number of the result file, from 1. */
function duplicateOutcome (chunk: Chunk, row: number): DuplicateOutcome {
  const { coordinates, rows } = chunk
  const isEmail = SERVICE_DEFINITIONS[coordinates.service].kind === 'email'
  return {
    source: 'duplicate',
    duplicateOf: originalOf(chunk, row) + 1,
    ...isEmail && { email: rows.canonicals[row] ?? '' },
  }
}

/** Uses the time of the quote, so that a replay stores the same row again. */
function invalidOutcome (rows: NormalizedRows, row: number, terms: JobTerms): RowOutcome {
  const reason = (rows.reasons[row] ?? '') as Reason
  const isUnknown = isUndecided(reason)
  return {
    status: isUnknown ? 'unknown' : 'invalid',
    reason,
    source: 'preflight',
    confidence: isUnknown ? 0 : 100,
    checkedAtMs: terms.quotedAtMs,
    expiresAtMs: terms.quotedAtMs,
    fields: NO_FIELDS,
    contact: {},
    copies: 0,
  }
}

/** A contact in the cache or the organization's lists. */
function answeredOutcome (
  chunk: Chunk, row: number, { freshnessMs, quotedAtMs: atMs }: JobTerms
): RowOutcome {
  const action = chunk.listed[row]
  if (action !== undefined) {
    return listedOutcome(action, contactAt(chunk, row), { atMs, freshnessMs })
  }
  const record = chunk.hits[row]
  if (record === undefined) throw new Error(`row ${row} is a cache hit without a record`)
  return rowOutcomeOf(record, contactAt(chunk, row), { source: 'cache', freshnessMs })
}

const contactAt = (chunk: Chunk, row: number) => ({
  service: chunk.coordinates.service,
  canonical: chunk.rows.canonicals[row] ?? '',
  copies: copiesOf(chunk, row),
})

function batchesOf (
  chunk: Chunk, toVerify: readonly number[], terms: JobTerms
): readonly Emission<'rows.to-verify'>[] {
  const batches: Emission<'rows.to-verify'>[] = []
  for (let from = 0; from < toVerify.length; from += terms.batchRows) {
    const rows = rowsToVerify(chunk, toVerify.slice(from, from + terms.batchRows))
    batches.push({
      topic: 'rows.to-verify',
      lane: terms.lane,
      service: chunk.coordinates.service,
      value: {
        ...chunk.coordinates,
        batch: batches.length,
        quotedAt: terms.quotedAtMs,
        forceFresh: terms.forceFresh,
        ...terms.options && { options: terms.options },
        tokenVersion: chunk.tokenVersion,
        freshnessMs: terms.freshnessMs,
        attempt: 0,
        notBefore: 0,
        retryDeadline: 0,
      },
      rows,
    })
  }
  return batches
}

function rowsToVerify (chunk: Chunk, toVerify: readonly number[]): ToVerifyRows {
  const { rows } = chunk
  return {
    rows: toVerify,
    duplicates: toVerify.map(row => copiesOf(chunk, row)),
    canonicals: toVerify.map(row => rows.canonicals[row] ?? ''),
    tokens: pickTokens(rows.tokens, toVerify),
    rotatedTokens: pickRotated(rows.rotatedTokens, toVerify),
  }
}
