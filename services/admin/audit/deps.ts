import { createDeliveryHistory } from '../../webhooks/delivery-history.ts'
import type { JobKeys } from '../../jobs/job-keys.ts'
import { createJournalCopy } from '../../money/journal-copy.ts'
import { createArchive } from '../../jobs/results/archive.ts'
import { createSharedBlockReads } from '../../jobs/results/result-blocks.ts'
import { createResults } from '../../jobs/results/results.ts'
import type { Stores } from '../stores.ts'
import { createAuditCounts, type IncrementalAuditDeps } from './incremental.ts'

type Connections = Pick<Stores, 'redis' | 'clickhouse' | 'recordMac' | 'codec'> & {
  readonly keys: Pick<JobKeys, 'get'>
}

/** The dependencies of an audit on open connections, except for Kafka. */
export function createAuditDeps ({ redis, clickhouse, recordMac, codec, keys }: Connections) {
  const blocks = createSharedBlockReads(clickhouse)
  return {
    redis,
    journal: createJournalCopy(clickhouse, recordMac),
    archive: createArchive(clickhouse, recordMac),
    history: createDeliveryHistory(clickhouse, recordMac),
    results: createResults({ blocks, codec, keys }),
    counts: createAuditCounts(clickhouse),
  } satisfies Omit<IncrementalAuditDeps, 'kafka'>
}
