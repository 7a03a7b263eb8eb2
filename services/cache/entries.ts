import { REASONS, VERDICTS, type CheckedRecord } from './record.ts'

/** A verdict in the cache of a tenant, with the job that paid for it. */
export type CachedRecord = CheckedRecord & { readonly job: string }

/** No record starts like this. */
const LEASE = 'lease '

/** The value of an entry while a job checks its contact. */
export function leaseOf (job: string): string {
  return LEASE + job
}

/** Whether the value of an entry is a lease. */
export function isLease (text: string): boolean {
  return text.startsWith(LEASE)
}

/**
 * Serializes records as JSON arrays, because field names would be half of their size. A record
 * object that is shared by many contacts is serialized once.
 */
export function createWriter (): (record: CachedRecord) => string {
  const known = new Map<CachedRecord, string>()
  return (record) => {
    const text = known.get(record) ?? textOf(record)
    known.set(record, text)
    return text
  }
}

function textOf (record: CachedRecord): string {
  return `[${verdictOf(record)},${record.checkedAtMs},${JSON.stringify(record.job)}]`
}

type WrittenVerdict = Pick<CachedRecord, 'status' | 'reason' | 'confidence'> & { text: string }

/** By `fields`, one object for all contacts of a number range in all jobs. */
const verdicts = new WeakMap<CachedRecord['fields'], WrittenVerdict>()

function verdictOf ({ status, reason, confidence, fields }: CachedRecord): string {
  const known = verdicts.get(fields)
  const isAlike = known?.status === status && known.reason === reason &&
    known.confidence === confidence
  if (isAlike) return known.text
  const text = JSON.stringify([status, reason, confidence, fields]).slice(1, -1)
  verdicts.set(fields, { status, reason, confidence, text })
  return text
}

/**
 * Parses entries; undefined for a missing entry, a lease, or an invalid value. Equal values give
 * the same record object, which is parsed once.
 */
export function createReader (): (text: string | null) => CachedRecord | undefined {
  const known = new Map<string, CachedRecord | undefined>()
  return (text) => {
    if (text === null) return undefined
    const found = known.get(text)
    if (found !== undefined || known.has(text)) return found
    const record = isLease(text) ? undefined : readRecord(text)
    known.set(text, record)
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
  const [status, reason, confidence, fields, checkedAtMs, job] = values
  const isRecord = status !== 'unknown' && isOneOf(VERDICTS, status) && isOneOf(REASONS, reason) &&
    typeof confidence === 'number' && typeof fields === 'object' && fields !== null &&
    typeof checkedAtMs === 'number' && typeof job === 'string'
  if (!isRecord) return undefined
  return { status, reason, confidence, fields, checkedAtMs, job } as CachedRecord
}

function isOneOf (list: readonly string[], value: unknown): boolean {
  return typeof value === 'string' && list.includes(value)
}
