import { createLogThrottle, type Log } from '../platform/log.ts'
import { createMac, type MessageKeySettings } from './mac.ts'
import type { Metrics } from '../platform/metrics.ts'

/** The signed content of a row of ClickHouse, with its table, tenant and id. */
export type SignedRecord = {
  readonly table: 'jobs' | 'journal' | 'deliveries' | 'job_keys'
  readonly tenant: string
  /** Unique among the records of the table and tenant. */
  readonly id: string
  readonly content: string
}

/** Detects records that were not stored by a service. */
export type RecordMac = {
  readonly sign: (record: SignedRecord) => string
  /** False for a forged, changed or moved record, which is also reported. */
  readonly isAuthentic: (mac: string, record: SignedRecord) => boolean
}

/** @throws TypeError when the active key is not among the keys. */
export function createRecordMac (
  settings: MessageKeySettings, onForged: (record: SignedRecord) => void = () => {}
): RecordMac {
  const mac = createMac(settings)
  const purposeOf = ({ table }: SignedRecord) => `record ${table}`
  const textOf = ({ tenant, id, content }: SignedRecord) =>
    [JSON.stringify([1, tenant, id, content])]
  return {
    sign: record => mac.sign(purposeOf(record), textOf(record)),
    isAuthentic: (given, record) => {
      if (mac.isAuthentic(given, purposeOf(record), textOf(record))) return true
      onForged(record)
      return false
    },
  }
}

const LOG_INTERVAL_MS = 60_000

/** Counts every forged record, and logs one per table and minute: there may be very many. */
export function reportForgedRecords (
  { log, metrics }: { readonly log: Pick<Log, 'error'>, readonly metrics: Pick<Metrics, 'count'> },
  now?: () => number
): (record: SignedRecord) => void {
  const isDue = createLogThrottle(LOG_INTERVAL_MS, now)
  return ({ table, tenant, id }) => {
    metrics.count('records_forged_total', { table })
    if (!isDue(table)) return
    log.error({ table, tenant, id }, 'skipped a ClickHouse record without a valid MAC: another ' +
      'client writes to ClickHouse, or MESSAGE_KEYS lacks the key that signed it')
  }
}
