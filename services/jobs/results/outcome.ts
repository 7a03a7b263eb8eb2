import type { Evidence } from '../../cache/evidence.ts'
import { type CheckedRecord, expiresAtMs } from '../../cache/cache.ts'
import type { ListAction } from '../../../schemas/api/contact-lists.ts'
import type { Reason, RowStatus } from '../../../schemas/api/verdicts.ts'
import { mailProviderOf, normalizedMailbox, unmaskExchange } from '../../mail/owners.ts'
import { formatPhone } from '../../phone/format.ts'
import type { ServiceSlug } from '../../topology.ts'
import { SERVICE_DEFINITIONS } from './columns.ts'

/** The outcome of an original, or of a row that failed preflight. */
export type RowOutcome = {
  readonly status: RowStatus
  readonly reason: Reason
  /** Where the verdict comes from; `none` for a row that ended without one. */
  readonly source: 'live' | 'cache' | 'preflight' | 'none'
  /** Whole number from 0 to 100. */
  readonly confidence: number
  /** Undefined for a record without it, and for a row whose contact is unknown. */
  readonly evidence?: Evidence | undefined
  readonly checkedAtMs: number
  readonly expiresAtMs: number
  /** The fields of the record, by result column; one object for all rows of a record. */
  readonly fields: Readonly<Record<string, string>>
  /** The columns derived from the contact; they override `fields`. */
  readonly contact: Readonly<Record<string, string>>
  /** Rows of the job that repeat this one. */
  readonly copies: number
}

/** The contact a result is about. */
export type CheckedContact = {
  readonly service: ServiceSlug
  readonly canonical: string
  readonly copies: number
}

type RecordTerms = {
  readonly source: 'live' | 'cache'
  readonly freshnessMs: number
}

/**
 * The outcome of a contact with this record. Derives the columns of the canonical form again, as
 * the cache must not identify contacts. A record without a verdict expires at once and has no
 * source.
 */
export function rowOutcomeOf (
  record: CheckedRecord, subject: CheckedContact, { source, freshnessMs }: RecordTerms
): RowOutcome {
  const { status, reason, confidence, evidence, checkedAtMs } = record
  return {
    status,
    reason,
    source: status === 'unknown' ? 'none' : source,
    confidence,
    evidence,
    checkedAtMs,
    expiresAtMs: status === 'unknown' ? checkedAtMs : expiresAtMs(checkedAtMs, freshnessMs),
    fields: record.fields,
    contact: contactOf(subject, record.fields),
    copies: subject.copies,
  }
}

const REASONS_OF_LISTS = {
  allow: 'allow_listed', block: 'block_listed', suppress: 'suppressed',
} as const satisfies Readonly<Record<ListAction, Reason>>

/** The outcome of a contact that the organization's lists decide at `atMs`, without a check. */
export function listedOutcome (
  action: ListAction, subject: CheckedContact,
  { atMs, freshnessMs }: { readonly atMs: number, readonly freshnessMs: number }
): RowOutcome {
  const isAllowed = action === 'allow'
  const outcome = rowOutcomeOf({
    status: isAllowed ? 'valid' : 'invalid',
    reason: REASONS_OF_LISTS[action],
    confidence: 100,
    fields: NO_FIELDS,
    evidence: NO_CHECKS,
    checkedAtMs: atMs,
  }, subject, { source: 'cache', freshnessMs })
  return isAllowed ? outcome : { ...outcome, source: 'preflight', expiresAtMs: atMs }
}

/**
 * The outcome of a row without a verdict, decided at `atMs`: not charged, and counted as failed
 * with its duplicates. Without a subject the contact of the row is unknown.
 */
export function withoutVerdict (
  reason: Reason, { atMs, subject }: { readonly atMs: number, readonly subject?: CheckedContact }
): RowOutcome {
  return {
    status: 'unknown',
    reason,
    source: 'none',
    confidence: 0,
    evidence: subject === undefined ? undefined : NO_CHECKS,
    checkedAtMs: atMs,
    expiresAtMs: atMs,
    fields: NO_FIELDS,
    contact: subject === undefined ? {} : contactOf(subject, NO_FIELDS),
    copies: subject?.copies ?? 0,
  }
}

/** Only the syntax was checked. */
const NO_CHECKS: Evidence = 0

/** The fields of all rows without a record. */
export const NO_FIELDS: CheckedRecord['fields'] = {}

/** The columns of a canonical form, which override the fields of the record. */
function contactOf ({ service, canonical }: CheckedContact, fields: Fields): Fields {
  return SERVICE_DEFINITIONS[service].kind === 'phone'
    ? derivePhone(canonical)
    : deriveEmail(canonical, fields)
}

type Fields = Readonly<Record<string, string>>

/**
 * Derives the result columns of an E.164 number, which are never cached.
 * `country` is blank when the number's range belongs to no single country (an unassigned range of
 * a shared calling code, or a global service such as +800).
 * @throws Error when `e164` is not canonical, which is a bug of the caller.
 */
function derivePhone (e164: string): Fields {
  const written = formatPhone(e164)
  if (written === undefined) throw new Error('derivePhone needs a canonical E.164 number')
  return {
    phone: written.international,
    e164,
    country: written.country ?? '',
    national_format: written.national,
  }
}

/**
 * Derives the result columns of a canonical e-mail address, whose mail exchange may be known by the
 * masked name that is cached. Turns a suggested mail domain into a full address, as only the domain
 * is cached.
 */
function deriveEmail (
  canonical: string, { mx_record: masked = '', suggestion = '' }: Fields
): Fields {
  const at = canonical.lastIndexOf('@')
  const domain = canonical.slice(at + 1)
  const exchange = unmaskExchange(masked, domain)
  return {
    email: canonical,
    domain,
    normalized: normalizedMailbox(canonical, exchange),
    ...exchange !== '' && { mx_record: exchange, mail_provider: mailProviderOf(exchange) },
    ...suggestion !== '' && { suggestion: `${canonical.slice(0, at)}@${suggestion}` },
  }
}
