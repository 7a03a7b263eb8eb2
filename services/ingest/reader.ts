import type { ClickHouseClient } from '@clickhouse/client'
import type { Redis } from 'ioredis'
import { JobKeyLostError, type JobKeys } from '../jobs/job-keys.ts'
import type { JobStore } from '../jobs/store.ts'
import { openHeader } from '../jobs/wire.ts'
import type { Codec } from '../lib/registry.ts'
import { createWallet } from '../money/wallet.ts'
import { createArchive } from '../records/archive.ts'
import { createResultBlocks } from '../records/result-blocks.ts'
import { createResults } from '../records/results.ts'
import { createOpenJobs } from './open-jobs.ts'
import type { Parts } from './ports.ts'

type Options = {
  readonly clickhouse: ClickHouseClient
  readonly codec: Codec
  readonly keys: JobKeys
  readonly state: Redis
  readonly store: Pick<JobStore, 'openJobs' | 'read'>
}

type Reader = Pick<Parts,
  'findArchived' | 'listArchived' | 'openHeader' | 'csvStream' | 'rows' | 'page' | 'openJobs' |
  'balance'>

/** What the routes read of jobs, their results, what was sealed with them, and of money. */
export function createReader ({ clickhouse, codec, keys, state, store }: Options): Reader {
  const archive = createArchive(clickhouse)
  const results = createResults({ blocks: createResultBlocks(clickhouse), codec, keys })
  return {
    findArchived: archive.find,
    listArchived: archive.list,
    openJobs: createOpenJobs(store),
    balance: createWallet(state).balance,
    rows: results.rows,
    page: results.page,
    csvStream: (job, manifest, options) => results.csvStream(job.tenant, job, manifest, options),
    openHeader: async job => {
      if (job.header.length === 0) return { metadata: {}, webhookUrl: '' }
      const key = await keys.get(job.tenant, job.id).catch(noneIfLost)
      // Without its key a job was erased: its labels are gone, its counts may still be seen.
      if (key === undefined) return { metadata: {}, webhookUrl: '' }
      return openHeader(key, { tenant: job.tenant, job: job.id }, job.header)
    },
  }
}

/** A running job whose key is nowhere still has a status. */
function noneIfLost (error: unknown): undefined {
  if (!(error instanceof JobKeyLostError)) throw error
}
