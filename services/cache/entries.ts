import {
  REASONS, ROW_STATUSES, type Reason, type RowStatus,
} from '../../schemas/api/verdicts.ts'
import type { Evidence } from './evidence.ts'

/**
 * A verdict as it is cached and sent on. `confidence` is an integer from 0 to 100. `fields` holds
 * only result columns that can't identify the contact and don't derive from its canonical form
 * (see `results/outcome.ts`); a column that does not apply is absent. The column `suggestion` holds
 * the suggested mail domain alone, because the full address would put the local part into the
 * cache. `evidence` is missing in records of releases that did not store it.
 */
export type CheckedRecord = {
  readonly status: RowStatus
  readonly reason: Reason
  readonly confidence: number
  readonly fields: Readonly<Record<string, string>>
  readonly checkedAtMs: number
  readonly evidence?: Evidence | undefined
}

/** A verdict in the cache of a tenant, with the job that paid for it. */
export type CachedRecord = CheckedRecord & { readonly job: string }

/** The beginning of every lease; no record starts like this. */
export const LEASE = 'lease '

/** The value of an entry while a job checks its contact. */
export function leaseOf (job: string): string {
  return LEASE + job
}

/**
 * Serializes records as JSON arrays, because field names would be half of their size. A record
 * object that is shared by many contacts is serialized once.
 */
export function createWriter (): (record: CachedRecord) => string {
  const texts = new Map<CachedRecord, string>()
  return (record) => {
    const written = texts.get(record)
    if (written !== undefined) return written
    const { checkedAtMs, job, evidence } = record
    // The evidence is last, where releases before it ignore it.
    const last = evidence === undefined ? '' : `,${evidence}`
    const text = `[${verdictOf(record)},${checkedAtMs},${JSON.stringify(job)}${last}]`
    texts.set(record, text)
    return text
  }
}

type WrittenVerdict = Pick<CachedRecord, 'status' | 'reason' | 'confidence'> & { text: string }

/** By `fields`, one object for all contacts of a number range in all jobs. */
const verdicts = new WeakMap<CachedRecord['fields'], WrittenVerdict>()

function verdictOf ({ status, reason, confidence, fields }: CachedRecord): string {
  const written = verdicts.get(fields)
  const isAlike = written?.status === status && written.reason === reason &&
    written.confidence === confidence
  if (isAlike) return written.text
  const text = JSON.stringify([status, reason, confidence, fields]).slice(1, -1)
  verdicts.set(fields, { status, reason, confidence, text })
  return text
}

/**
 * Parses entries; undefined for a missing entry, a lease, or an invalid value. Equal values give
 * the same record object, which is parsed once.
 */
export function createReader (): (text: string | null) => CachedRecord | undefined {
  const records = new Map<string, CachedRecord | undefined>()
  return (text) => {
    if (text === null) return undefined
    const earlier = records.get(text)
    if (earlier !== undefined || records.has(text)) return earlier
    const record = text.startsWith(LEASE) ? undefined : readRecord(text)
    records.set(text, record)
    return record
  }
}

function readRecord (text: string): CachedRecord | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return Array.isArray(value) ? recordOf(value) : undefined
  } catch {
    return undefined
  }
}

function recordOf (values: readonly unknown[]): CachedRecord | undefined {
  const [status, reason, confidence, fields, checkedAtMs, job, evidence] = values
  const isRecord = status !== 'unknown' && isOneOf(ROW_STATUSES, status) &&
    isOneOf(REASONS, reason) &&
    typeof confidence === 'number' && typeof fields === 'object' && fields !== null &&
    typeof checkedAtMs === 'number' && typeof job === 'string'
  if (!isRecord) return undefined
  const isKnown = Number.isSafeInteger(evidence) && Number(evidence) >= 0
  return {
    status, reason, confidence, fields, evidence: isKnown ? evidence : undefined, checkedAtMs, job,
  } as CachedRecord
}

function isOneOf (list: readonly string[], value: unknown): boolean {
  return typeof value === 'string' && list.includes(value)
}

/** The maximum age of a record, whatever the policy of an organization: 90 days. */
export const MAX_FRESHNESS_MS = 90 * 24 * 60 * 60 * 1_000

/**
 * When a record must be verified again, in Unix milliseconds, under a policy of `freshnessMs`; the
 * maximum of 90 days always applies.
 */
export function expiresAtMs (checkedAtMs: number, freshnessMs: number): number {
  return checkedAtMs + Math.min(freshnessMs, MAX_FRESHNESS_MS)
}

type FreshnessRule = {
  /** The time of the quote, the same for every row of a job. */
  readonly quotedAtMs: number
  readonly freshnessMs: number
}

/**
 * Whether a record can be used for a job quoted at `quotedAtMs`. A record made after the quote is
 * fresh; at the exact time of its expiry it is not.
 */
export function isFresh (record: { readonly checkedAtMs: number }, rule: FreshnessRule): boolean {
  return expiresAtMs(record.checkedAtMs, rule.freshnessMs) > rule.quotedAtMs
}
