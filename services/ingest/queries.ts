import { createErasures } from '../jobs/erasures.ts'
import type { Job } from '../jobs/job.ts'
import type { JobKeys } from '../jobs/job-keys.ts'
import { unfinishedRowsOf } from '../jobs/manifest.ts'
import type { JobStore } from '../jobs/store.ts'
import type { Connections } from '../runtime/engine/connections.ts'
import { createJournalCopy } from '../money/journal-copy.ts'
import { createWallet } from '../money/wallet.ts'
import { type Archive, createArchive } from '../jobs/results/archive.ts'
import { createResultBlocks } from '../jobs/results/result-blocks.ts'
import { createResults } from '../jobs/results/results.ts'
import { readUsage } from '../jobs/results/usage.ts'
import type { IngestDeps } from './ports.ts'
import { createWebhooks, type WebhookOptions, type Webhooks } from './webhooks.ts'
import { ApiException } from './errors.ts'

type Options = WebhookOptions & Pick<Connections, 'codec'> & {
  readonly keys: JobKeys
  readonly store: Pick<JobStore, 'openJobs' | 'read' | 'readWithManifest'>
}

type Queries = Webhooks & Pick<IngestDeps,
  'findArchived' | 'findResults' | 'findErasures' | 'listArchived' | 'csvStream' | 'rows' |
  'openJobs' | 'balance' | 'usage' | 'transactions'>

/** The queries of the routes: jobs, results, webhooks and balance. */
export function createQueries (options: Options): Queries {
  const { clickhouse, recordMac, codec, keys, state, store } = options
  const archive = createArchive(clickhouse, recordMac)
  const gate = createTenantGate()
  const results = createResults({ blocks: createResultBlocks(clickhouse), codec, keys })
  return {
    findArchived: archive.find,
    findResults: createFindResults(store, archive),
    findErasures: createErasures(state).find,
    listArchived: archive.list,
    openJobs: createOpenJobs(store),
    balance: createWallet(state).balance,
    usage: (tenant, options) => gate(tenant, () => readUsage(archive, tenant, options)),
    transactions: createJournalCopy(clickhouse, recordMac).readNewest,
    rows: results.rows,
    csvStream: results.csvStream,
    ...createWebhooks(options),
  }
}

/**
 * Finds the results of an ended job: in its record in Redis as long as that has its whole manifest,
 * which is there before ClickHouse stores it. A record that was rebuilt after a loss of Redis has
 * none.
 */
export function createFindResults (
  store: Pick<JobStore, 'readWithManifest'>, archive: Pick<Archive, 'find'>
): IngestDeps['findResults'] {
  return async (tenant, job) => {
    const found = await store.readWithManifest(tenant, job)
    const isWhole = found?.job.ended === true &&
      unfinishedRowsOf(found.job.preflight.totalRows, found.manifest).every(byte => byte === 0)
    return isWhole ? found : await archive.find(tenant, job)
  }
}

/** Jobs read at a time, so that a tenant with thousands of open jobs does not block others. */
const READ_AT_ONCE = 100

/** Reads all open jobs of a tenant. */
export function createOpenJobs (
  store: Pick<JobStore, 'openJobs' | 'read'>
): IngestDeps['openJobs'] {
  return async tenant => {
    const ids = (await store.openJobs(tenant)).map(({ job }) => job)
    const jobs: Job[] = []
    for (let from = 0; from < ids.length; from += READ_AT_ONCE) {
      const some = ids.slice(from, from + READ_AT_ONCE)
      const read = await Promise.all(some.map(id => store.read(tenant, id)))
      jobs.push(...read.filter(job => job !== undefined))
    }
    return jobs
  }
}

/** Requests of one tenant that wait in this process, beside the one that runs. */
const MAX_WAITING = 10
const RETRY_AFTER_SECONDS = 2

/**
 * Limits expensive reads to one per tenant in this process; further ones wait in order, so that one
 * tenant never uses more than a share of it.
 * @throws ApiException `rate_limited` when too many wait.
 */
export function createTenantGate () {
  const queues = new Map<string, { last: Promise<unknown>, waiting: number }>()
  return async <T>(tenant: string, read: () => Promise<T>): Promise<T> => {
    const queue = queues.get(tenant) ?? { last: Promise.resolve(), waiting: -1 }
    if (queue.waiting >= MAX_WAITING) {
      throw new ApiException({
        code: 'rate_limited',
        message: 'Too many requests of this kind are running for this account. Send it again ' +
          'after the seconds in Retry-After.',
        retryAfterSeconds: RETRY_AFTER_SECONDS,
      })
    }
    queues.set(tenant, queue)
    queue.waiting += 1
    const result = queue.last.then(read)
    queue.last = result.catch(() => {}).finally(() => {
      queue.waiting -= 1
      if (queue.waiting < 0) queues.delete(tenant)
    })
    return await result
  }
}
