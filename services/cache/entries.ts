import { REASONS, VERDICTS, type CheckedRecord } from './record.ts'

/** A verdict in a tenant's cache, with the job that paid for it. */
export type CachedRecord = CheckedRecord & { readonly job: string }

/** No record begins like this, so a lease is never taken for one. */
const LEASE = 'lease '

/** What an entry holds while its contact is under check for a job. */
export function leaseOf (job: string): string {
  return LEASE + job
}

/** Whether an entry is the lease of some job. */
export function isLease (text: string): boolean {
  return text.startsWith(LEASE)
}

/**
 * Writes records as JSON, a list of their values, as names would be half of it. One that is one
 * object for many contacts is written once.
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

/** By fields, which are one object for all contacts of a range, whatever job they are of. */
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
 * Reads entries; undefined for one that is missing, a lease, or that cannot be read. Contacts of
 * the same job and range have the same record, which is read and held once.
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
