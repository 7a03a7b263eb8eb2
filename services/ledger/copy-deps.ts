import type { Connections } from '../engine/connections.ts'
import { batchWrites } from '../platform/batch-writes.ts'
import { createJobKeyCopy } from '../jobs/job-key-copy.ts'
import type { LedgerSettings } from './deps.ts'
import type { LedgerDeps } from './stage.ts'

type Config = Pick<LedgerSettings, 'LEDGER_BATCH_MESSAGES' | 'COPY_AFTER_MS'>

/** The dependencies of the copy to ClickHouse; the partitions of a topic share an insert. */
export function copyDeps (
  config: Config,
  { journal, clickhouse, recordMac, clock }: Pick<LedgerDeps, 'journal' | 'clock'> &
    Pick<Connections, 'clickhouse' | 'recordMac'>
): LedgerDeps {
  return {
    journal: { append: batchWrites(journal.append) },
    keys: { append: batchWrites(createJobKeyCopy(clickhouse, recordMac).append) },
    clock,
    batch: config.LEDGER_BATCH_MESSAGES,
    copyAfterMs: config.COPY_AFTER_MS,
  }
}
