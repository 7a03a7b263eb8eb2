import type { Retry, RetryRows } from '../../schemas/types.ts'
import { partsOf } from '../accounts/tenant.ts'
import { CHUNK_ROWS } from '../jobs/chunks.ts'
import type { Clock } from '../runtime/platform/clock.ts'
import type { Metrics } from '../runtime/platform/metrics.ts'
import type { Emission } from '../runtime/engine/stage.ts'
import { laneOf } from '../runtime/platform/topics.ts'
import { coordinatesOf, createBlock } from '../jobs/results/block.ts'
import { pickRotated, pickTokens } from '../cache/tokens.ts'
import { type CheckedContact, type RowOutcome, withoutVerdict } from '../jobs/results/outcome.ts'
import type { Reason } from '../../schemas/api/verdicts.ts'
import type { ServiceSlug } from '../topology.ts'
import type { CheckRequest } from './checker.ts'
import type { Submissions, VendorSubmission } from './provider.ts'

/** A verification batch; a position is an index into its rows, not into those of the chunk. */
export type VerificationBatch = {
  readonly value: Retry
  readonly rows: RetryRows
  /** If a provider of the service takes batches. */
  readonly submissions?: Submissions | undefined
}

/** One entry per row of the batch; undefined for a row that no provider was available for. */
export type BatchOutcomes = readonly (RowOutcome | undefined)[]

/** The positions without an outcome. */
export const openIn = (outcomes: BatchOutcomes): readonly number[] =>
  [...outcomes.keys()].filter((position) => outcomes[position] === undefined)

/** The contact at a position. */
export function subjectAt ({ value, rows }: VerificationBatch, position: number): CheckedContact {
  return {
    service: value.service as ServiceSlug,
    canonical: rows.canonicals[position] ?? '',
    copies: rows.duplicates[position] ?? 0,
  }
}

/** Service and mode of the batch. */
export function kindOf ({ service, tenant }: Retry): Pick<CheckRequest, 'service' | 'mode'> {
  return { service: service as ServiceSlug, mode: partsOf(tenant).mode }
}

/** Tenant, service and tokens for the cache entries of all positions, or of some. */
export function cacheScopeOf ({ value, rows }: VerificationBatch, positions?: readonly number[]) {
  const { tenant, service } = coordinatesOf(value)
  const rotated = positions === undefined
    ? rows.rotatedTokens
    : pickRotated(rows.rotatedTokens, positions)
  return { tenant, service, version: value.tokenVersion, rotated }
}

/** All rows of the batch without a verdict, for one reason; `atMs` is Redis time. */
export function allWithout (batch: VerificationBatch, reason: Reason, atMs: number): BatchOutcomes {
  return batch.rows.rows.map((_, position) =>
    withoutVerdict(reason, { atMs, subject: subjectAt(batch, position) }))
}

export type EmitDeps = {
  /** Redis time. */
  readonly clock: Clock
  /** Milliseconds before the rows without an outcome are checked again. */
  readonly retryDelayMs: number
  /** Milliseconds after the first attempt when such rows end without a verdict. */
  readonly retryForMs: number
  readonly metrics?: Pick<Metrics, 'count'>
}

/**
 * A block of the rows with an outcome, and a retry of the others. After the retry deadline the
 * others end without a verdict in the same block. Rows that a vendor has are retried as often as it
 * wants to be asked for them, until its deadline.
 */
export function batchEmissions (
  batch: VerificationBatch, outcomes: BatchOutcomes, deps: EmitDeps
): readonly Emission<'rows.completed' | 'rows.retry'>[] {
  const nowMs = deps.clock.now()
  const { value } = batch
  const open = openIn(outcomes)
  if (open.length === 0) return [blockOf(batch, outcomes)]
  const submitted = submittedOf(batch, open)
  const first = value.retryDeadline === 0 ? nowMs + deps.retryForMs : value.retryDeadline
  const retryDeadline = Math.max(first, ...submitted.map(({ deadlineMs }) => deadlineMs))
  if (nowMs >= retryDeadline) {
    const without = allWithout(batch, 'unavailable', nowMs)
    return [blockOf(batch, outcomes.map((outcome, position) => outcome ?? without[position]))]
  }
  const isDelayed = open.some((position) => batch.submissions?.of(position) === undefined)
  if (isDelayed) {
    deps.metrics?.count('verification_batches_retried_total', { service: value.service })
  }
  const delays = [...isDelayed ? [deps.retryDelayMs] : [], ...submitted.map((one) => one.pollMs)]
  const notBefore = Math.min(nowMs + Math.min(...delays), retryDeadline)
  const retry = retryOf(batch, open, { notBefore, retryDeadline })
  return open.length === outcomes.length ? [retry] : [blockOf(batch, outcomes), retry]
}

/** What vendors have of the rows at these positions. */
export function submittedOf (
  { submissions }: VerificationBatch, open: readonly number[]
): readonly VendorSubmission[] {
  return [...new Set(open.flatMap((position) => submissions?.of(position) ?? []))]
}

function blockOf (batch: VerificationBatch, outcomes: BatchOutcomes): Emission<'rows.completed'> {
  const coordinates = coordinatesOf(batch.value)
  const block = createBlock({ coordinates, batch: blockBatchOf(batch.value) })
  const { rows } = batch.rows
  for (let position = 0; position < rows.length; position++) {
    const row = rows[position]
    const outcome = outcomes[position]
    if (row !== undefined && outcome !== undefined) block.add(row, outcome)
  }
  return block.emission(laneOf(coordinates.totalRows))
}

/**
 * The batch number of a block: that of the verification batch, plus CHUNK_ROWS for each earlier
 * attempt. A chunk has at most CHUNK_ROWS batches, so all blocks of a chunk have different numbers,
 * which their seals are bound to.
 */
export function blockBatchOf ({ batch, attempt }: Pick<Retry, 'batch' | 'attempt'>): number {
  return batch + CHUNK_ROWS * attempt
}

function retryOf (
  { value, rows }: VerificationBatch, open: readonly number[],
  times: Pick<Retry, 'notBefore' | 'retryDeadline'>
): Emission<'rows.retry'> {
  const { rowsSchema: _schema, sealed: _sealed, ...envelope } = value
  const coordinates = coordinatesOf(value)
  return {
    topic: 'rows.retry',
    lane: laneOf(coordinates.totalRows),
    service: coordinates.service,
    value: { ...envelope, attempt: value.attempt + 1, ...times },
    rows: rowsAt(rows, open),
  }
}

function rowsAt (rows: RetryRows, positions: readonly number[]): RetryRows {
  const pick = <T>(values: readonly T[]): T[] => positions.map((position) => values[position] as T)
  return {
    rows: pick(rows.rows),
    duplicates: pick(rows.duplicates),
    canonicals: pick(rows.canonicals),
    tokens: pickTokens(rows.tokens, positions),
    rotatedTokens: pickRotated(rows.rotatedTokens, positions),
  }
}
