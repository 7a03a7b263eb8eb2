import { setTimeout as delay } from 'node:timers/promises'
import { ApiError, createClient, type Client } from '../../../services/client/client.ts'
import type { BenchContext } from '../run.ts'
import { freshPhones, timeJob, median } from '../jobs.ts'
import { createFundedKey, type RunningContext } from '../services.ts'

type FairnessContext = RunningContext & Pick<BenchContext, 'rows' | 'log'> & {
  readonly env: Readonly<Record<string, string>>
}

/** The default MAX_ACTIVE_JOBS of an organization. */
const CONCURRENT_JOBS = 10
const BASELINE_JOBS = 5
const ORGANIZATIONS = 10
const POLL_EVERY_MS = 200
/** Large jobs at once can be more than two cores accept within the time limit of a request. */
const OVERLOAD_RETRIES = 20

/** Measures the slowdown by another organization, and the shares of ten with equal load. */
export async function measureFairness (context: FairnessContext) {
  const { rows, log } = context
  const smallRows = Math.max(1, Math.round(rows / 5))
  log(`fairness: a job of ${smallRows} rows, alone and beside ${CONCURRENT_JOBS} jobs of ` +
    `${rows} rows`)
  const largeClient = await createFundedClient(context, OVERLOAD_RETRIES)
  const smallClient = await createFundedClient(context, 0)
  await timeJob(smallClient, freshPhones(smallRows))
  const baseline: number[] = []
  for (let job = 0; job < BASELINE_JOBS; job++) {
    baseline.push((await timeJob(smallClient, freshPhones(smallRows))).wallMs)
  }
  const underLoad = await measureUnderLoad({ largeClient, smallClient }, { rows, smallRows })
  log(`fairness: ${ORGANIZATIONS} organizations with ${CONCURRENT_JOBS} jobs each`)
  const clients: Client[] = []
  while (clients.length < ORGANIZATIONS) {
    clients.push(await createFundedClient(context, OVERLOAD_RETRIES))
  }
  const jainIndex = await measureShares(clients, smallRows)
  const baselineMs = median(baseline)
  return { baselineMs, ...underLoad, ratio: median(underLoad.underLoadMs) / baselineMs, jainIndex }
}

async function createFundedClient (
  { env, access: { baseUrl } }: FairnessContext, retries: number
): Promise<Client> {
  return createClient({ baseUrl, apiKey: await createFundedKey(env), retries })
}

/** The small jobs beside the large ones, how long these take, and 5xx to the small ones. */
async function measureUnderLoad (
  { largeClient, smallClient }: { readonly largeClient: Client, readonly smallClient: Client },
  { rows, smallRows }: { readonly rows: number, readonly smallRows: number }
) {
  const inputs = Array.from({ length: CONCURRENT_JOBS }, () => freshPhones(rows))
  const ended = new AbortController()
  const startedAt = performance.now()
  const load = Promise.all(inputs.map(job => timeJob(largeClient, job, { pollEveryMs: 500 })))
    .finally(() => ended.abort())
  // It is awaited below and may reject before that.
  load.catch(() => {})
  const underLoadMs: number[] = []
  let unavailable = 0
  while (!ended.signal.aborted) {
    try {
      const { wallMs } = await timeJob(smallClient, freshPhones(smallRows))
      underLoadMs.push(wallMs)
    } catch (error) {
      if (!(error instanceof ApiError) || error.status < 500) throw error
      unavailable += 1
    }
  }
  await load
  return { underLoadMs, largeJobsMs: performance.now() - startedAt, unavailable }
}

/**
 * Jain's fairness index of the rows that organizations with equal load have completed when half of
 * all rows are: 1 when all shares are equal, and 1/n when one organization has everything.
 */
async function measureShares (clients: readonly Client[], rows: number): Promise<number> {
  const load = clients.map(client => Promise.all(
    Array.from({ length: CONCURRENT_JOBS }, () => freshPhones(rows))
      .map(inputs => timeJob(client, inputs, { pollEveryMs: 1_000 }))))
  for (const jobs of load) jobs.catch(() => {})
  const half = clients.length * CONCURRENT_JOBS * 100 / 2
  for (;;) {
    await delay(POLL_EVERY_MS)
    const shares = await Promise.all(clients.map(completedPercent))
    const total = shares.reduce((sum, share) => sum + share, 0)
    if (total < half) continue
    await Promise.all(load)
    return total ** 2 / (shares.length * shares.reduce((sum, share) => sum + share ** 2, 0))
  }
}

/** The progress of all jobs in percent, added up. */
async function completedPercent (client: Client): Promise<number> {
  const { data } = await client.jobsPage({ limit: 100 })
  return data.reduce((sum, { progressPercent }) => sum + progressPercent, 0)
}
