import type { ClickHouseClient } from '@clickhouse/client'
import type { Redis } from 'ioredis'
import { createDeliveryHistory } from '../jobs/delivery-history.ts'
import type { JobKeys } from '../jobs/job-keys.ts'
import type { RecordMac } from '../lib/record-mac.ts'
import type { Codec } from '../lib/registry.ts'
import { createArchive } from '../records/archive.ts'
import { createJournalCopy } from '../records/journal-copy.ts'
import { createResultBlocks } from '../records/result-blocks.ts'
import { createResults } from '../records/results.ts'
import { createAuditCounts } from './audit-counts.ts'
import type { IncrementalParts } from './audit-incremental.ts'

type Connected = {
  readonly redis: Redis
  readonly clickhouse: ClickHouseClient
  readonly recordMac: RecordMac
  readonly codec: Codec
  readonly keys: Pick<JobKeys, 'get'>
}

/** What the audit reads, on open connections. */
export function auditParts ({ redis, clickhouse, recordMac, codec, keys }: Connected) {
  const blocks = createResultBlocks(clickhouse)
  return {
    redis,
    journal: createJournalCopy(clickhouse, recordMac),
    archive: createArchive(clickhouse, recordMac),
    history: createDeliveryHistory(clickhouse, recordMac),
    results: createResults({ blocks, codec, keys }),
    counts: createAuditCounts(clickhouse),
  } satisfies Omit<IncrementalParts, 'kafka'>
}
