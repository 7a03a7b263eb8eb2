import type { ServiceSlug } from '../topology.ts'
import { SERVICES } from './columns.ts'
import { derive } from './derive.ts'
import { expiresAtMs } from '../cache/freshness.ts'
import type { CheckedRecord, Reason, Verdict } from '../cache/record.ts'

/** How an original, or a row that failed preflight, ended. */
export type RowOutcome = {
  readonly status: Verdict
  readonly reason: Reason
  /** Where the verdict comes from; `none` for a row that ended without one. */
  readonly source: 'live' | 'cache' | 'preflight' | 'none'
  /** Whole number from 0 to 100. */
  readonly confidence: number
  readonly checkedAtMs: number
  readonly expiresAtMs: number
  /** What the record tells, by result column; the very same object for all rows of one record. */
  readonly fields: Readonly<Record<string, string>>
  /** What follows from the contact alone, by result column; it goes before `fields`. */
  readonly contact: Readonly<Record<string, string>>
  /** Rows of the job that repeat this one. */
  readonly copies: number
}

/** The contact a result is about. */
export type Subject = {
  readonly service: ServiceSlug
  readonly canonical: string
  readonly copies: number
}

export type RecordTerms = {
  readonly source: 'live' | 'cache'
  readonly freshnessMs: number
}

/**
 * The result that a record gives a contact. What derives from the canonical form is computed again,
 * as the cache holds nothing that identifies it. A record that is no verdict ends when it was made,
 * and is the source of none.
 */
export function outcomeOf (
  record: CheckedRecord, subject: Subject, { source, freshnessMs }: RecordTerms
): RowOutcome {
  const { status, reason, confidence, checkedAtMs } = record
  return {
    status,
    reason,
    source: status === 'unknown' ? 'none' : source,
    confidence,
    checkedAtMs,
    expiresAtMs: status === 'unknown' ? checkedAtMs : expiresAtMs(checkedAtMs, freshnessMs),
    fields: record.fields,
    contact: contactOf(subject, record.fields),
    copies: subject.copies,
  }
}

/**
 * A row that needed a live check and got no verdict, decided at `atMs`: free, and counted as failed
 * with its copies. Without a subject nothing is known of the row but its place.
 */
export function withoutVerdict (
  reason: Reason, { atMs, subject }: { readonly atMs: number, readonly subject?: Subject }
): RowOutcome {
  return {
    status: 'unknown',
    reason,
    source: 'none',
    confidence: 0,
    checkedAtMs: atMs,
    expiresAtMs: atMs,
    fields: NO_FIELDS,
    contact: subject === undefined ? {} : contactOf(subject, NO_FIELDS),
    copies: subject?.copies ?? 0,
  }
}

/** Of rows without a record, all of them. */
export const NO_FIELDS: CheckedRecord['fields'] = {}

function contactOf ({ service, canonical }: Subject, fields: CheckedRecord['fields']) {
  return derive(SERVICES[service].kind, canonical, fields)
}
