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

/** Writes records; one that is one object for many contacts is written once. */
export function createWriter (): (record: CachedRecord) => string {
  const known = new Map<CachedRecord, string>()
  return (record) => {
    const text = known.get(record) ?? JSON.stringify(record)
    known.set(record, text)
    return text
  }
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
    return isRecord(value) ? value : undefined
  } catch {
    return undefined
  }
}

function isRecord (value: unknown): value is CachedRecord {
  if (typeof value !== 'object' || value === null) return false
  const { status, reason, confidence, fields, checkedAtMs, job } = value as Record<string, unknown>
  return status !== 'unknown' && isOneOf(VERDICTS, status) && isOneOf(REASONS, reason) &&
    typeof confidence === 'number' && typeof fields === 'object' && fields !== null &&
    typeof checkedAtMs === 'number' && typeof job === 'string'
}

function isOneOf (list: readonly string[], value: unknown): boolean {
  return typeof value === 'string' && list.includes(value)
}
