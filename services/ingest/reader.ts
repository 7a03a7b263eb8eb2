import type { ClickHouseClient } from '@clickhouse/client'
import type { Redis } from 'ioredis'
import type { JobKeys } from '../jobs/job-keys.ts'
import type { JobStore } from '../jobs/store.ts'
import type { Codec } from '../lib/registry.ts'
import { createWallet } from '../money/wallet.ts'
import { createArchive } from '../records/archive.ts'
import { createResultBlocks } from '../records/result-blocks.ts'
import { createResults } from '../records/results.ts'
import { createOpenJobs } from './open-jobs.ts'
import type { Parts } from './ports.ts'
import { createWebhooks, type Webhooks } from './webhooks.ts'

type Options = {
  readonly clickhouse: ClickHouseClient
  readonly codec: Codec
  readonly keys: JobKeys
  readonly state: Redis
  readonly store: Pick<JobStore, 'openJobs' | 'read'>
}

type Reader = Webhooks & Pick<Parts,
  'findArchived' | 'listArchived' | 'csvStream' | 'rows' | 'page' | 'openJobs' | 'balance'>

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
    ...createWebhooks({ clickhouse, keys, state }),
  }
}
