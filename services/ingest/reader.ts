import type { ClickHouseClient } from '@clickhouse/client'
import type { JobKeys } from '../jobs/job-keys.ts'
import { openHeader } from '../jobs/wire.ts'
import type { Codec } from '../lib/registry.ts'
import { createArchive } from '../records/archive.ts'
import { createResultBlocks } from '../records/result-blocks.ts'
import { createResults } from '../records/results.ts'
import type { Parts } from './ports.ts'

type Options = {
  readonly clickhouse: ClickHouseClient
  readonly codec: Codec
  readonly keys: JobKeys
}

/** What the routes read of closed jobs, their results, and what was sealed with a job. */
export function createReader (
  { clickhouse, codec, keys }: Options
): Pick<Parts, 'findArchived' | 'openHeader' | 'csvStream'> {
  const archive = createArchive(clickhouse)
  const results = createResults({ blocks: createResultBlocks(clickhouse), codec, keys })
  return {
    findArchived: archive.find,
    csvStream: (job, manifest, options) => results.csvStream(job.tenant, job, manifest, options),
    openHeader: async job => {
      const key = await keys.get(job.tenant, job.id)
      // Without its key a job was erased: its labels are gone, its counts may still be seen.
      if (key === undefined) return { metadata: {}, webhookUrl: '' }
      return openHeader(key, { tenant: job.tenant, job: job.id }, job.header)
    },
  }
}
