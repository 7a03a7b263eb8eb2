import type { Log } from './log.ts'
import { createMac, type MessageKeySettings } from './mac.ts'
import type { Metrics } from './metrics.ts'

/** What is signed of a final record: whose it is and everything it says. */
export type SignedRecord = {
  readonly tenant: string
  readonly job: string
  /** The job as JSON, with the digest of its manifest. */
  readonly record: string
  /** The sealed header in base64. */
  readonly header: string
}

/** Tells records that a service stored from those that somebody else put into the archive. */
export type RecordMac = {
  readonly sign: (record: SignedRecord) => string
  /** False for a record of another hand or another place; that is reported. */
  readonly isAuthentic: (stored: SignedRecord & { readonly mac: string }) => boolean
}

/** @throws TypeError when the active key is not among the keys. */
export function createRecordMac (
  settings: MessageKeySettings, onForged: (record: SignedRecord) => void = () => {}
): RecordMac {
  const mac = createMac(settings)
  const textOf = ({ tenant, job, record, header }: SignedRecord) =>
    [JSON.stringify([1, tenant, job, record, header])]
  return {
    sign: record => mac.sign('record', textOf(record)),
    isAuthentic: stored => {
      if (mac.isAuthentic(stored.mac, 'record', textOf(stored))) return true
      onForged(stored)
      return false
    },
  }
}

/** Counts and logs every forged record that is met. */
export const reportForgedRecords = (
  { log, metrics }: { readonly log: Pick<Log, 'error'>, readonly metrics: Pick<Metrics, 'count'> }
) => ({ tenant, job }: SignedRecord): void => {
  metrics.count('records_forged_total', {})
  log.error({ tenant, job }, 'skipped a final record that no service stored: somebody else ' +
    'writes to ClickHouse, or MESSAGE_KEYS lacks the key it was signed with')
}
