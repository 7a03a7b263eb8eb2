import { createAccessHead } from '../access-log/access-log.ts'
import { createAccessCopy } from '../access-log/copy.ts'
import type { NumberedEntry } from '../access-log/entry.ts'
import type { Connections } from '../engine/connections.ts'
import { batchWrites } from '../platform/batch-writes.ts'
import { createJobKeyCopy } from '../jobs/job-key-copy.ts'
import type { LedgerSettings } from './deps.ts'
import type { LedgerDeps } from './stage.ts'

type Config = Pick<LedgerSettings, 'LEDGER_BATCH_MESSAGES' | 'COPY_AFTER_MS'>

/** The dependencies of the copy to ClickHouse; the partitions of a topic share an insert. */
export function copyDeps (
  config: Config,
  { journal, clickhouse, recordMac, state, clock }: Pick<LedgerDeps, 'journal' | 'clock'> &
    Pick<Connections, 'clickhouse' | 'recordMac' | 'state'>
): LedgerDeps {
  const accessCopy = createAccessCopy(clickhouse, recordMac)
  const accessHead = createAccessHead(state)
  return {
    journal: { append: batchWrites(journal.append) },
    keys: { append: batchWrites(createJobKeyCopy(clickhouse, recordMac).append) },
    access: {
      append: async (entries: readonly NumberedEntry[]) => {
        await accessCopy.append(entries)
        await accessHead.advance(Math.max(...entries.map(({ seq }) => seq)))
      },
    },
    clock,
    batch: config.LEDGER_BATCH_MESSAGES,
    copyAfterMs: config.COPY_AFTER_MS,
  }
}
