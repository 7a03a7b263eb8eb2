import { setTimeout as delay } from 'node:timers/promises'
import { ApiError, createClient, type Client } from '../../../services/client/client.ts'
import { phones, timeJob } from '../jobs.ts'
import { richKey, type Running } from '../services.ts'
import type { Setting } from '../setting.ts'
import { median } from '../spread.ts'

export type FairnessFigures = {
  /** A job of a fifth of the rows: alone, and beside ten big jobs of another organization. */
  readonly aloneMs: number
  readonly besideMs: readonly number[]
  /** The big jobs, from the first POST to the last end. */
  readonly bigMs: number
  /** Median beside divided by the median alone. */
  readonly ratio: number
  /** Answers 5xx to the jobs beside. */
  readonly unavailable: number
  /** Jain's index of the rows that equal organizations have finished when half of all are. */
  readonly jain: number
}

type FairnessSetting = Running & Pick<Setting, 'rows' | 'show'> & {
  readonly env: Readonly<Record<string, string>>
}

/** As many as an organization may have. */
const JOBS_AT_ONCE = 10
const ALONE_JOBS = 5
const ORGANIZATIONS = 10
const LEADER_POLL_MS = 200

/** One organization beside the big jobs of another one, and ten organizations with equal loads. */
export async function measureFairness (setting: FairnessSetting): Promise<FairnessFigures> {
  const { rows, show } = setting
  const small = Math.max(1, Math.round(rows / 5))
  show(`fairness: a job of ${small} rows, alone and beside ${JOBS_AT_ONCE} jobs of ${rows} rows`)
  const [big, other] = await clientsOf(setting, 2) as [Client, Client]
  await timeJob(other, phones(small))
  const alone: number[] = []
  for (let job = 0; job < ALONE_JOBS; job++) {
    alone.push((await timeJob(other, phones(small))).wallMs)
  }
  const beside = await measureBeside({ big, other }, { rows, small })
  show(`fairness: ${ORGANIZATIONS} organizations with ${JOBS_AT_ONCE} jobs each`)
  const jain = await measureShares(await clientsOf(setting, ORGANIZATIONS), small)
  const aloneMs = median(alone)
  return { aloneMs, ...beside, ratio: median(beside.besideMs) / aloneMs, jain }
}

async function clientsOf (
  { env, address: { baseUrl } }: FairnessSetting, count: number
): Promise<readonly Client[]> {
  const clients: Client[] = []
  for (let index = 0; index < count; index++) {
    clients.push(createClient({ baseUrl, apiKey: await richKey(env), retries: 0 }))
  }
  return clients
}

async function measureBeside (
  { big, other }: { readonly big: Client, readonly other: Client },
  { rows, small }: { readonly rows: number, readonly small: number }
): Promise<Pick<FairnessFigures, 'besideMs' | 'bigMs' | 'unavailable'>> {
  const inputs = Array.from({ length: JOBS_AT_ONCE }, () => phones(rows))
  const over = new AbortController()
  const startedAt = performance.now()
  const crowd = Promise.all(inputs.map(own => timeJob(big, own, { pollEveryMs: 500 })))
    .finally(() => over.abort())
  const besideMs: number[] = []
  let unavailable = 0
  while (!over.signal.aborted) {
    try {
      const { wallMs } = await timeJob(other, phones(small))
      besideMs.push(wallMs)
    } catch (error) {
      if (!(error instanceof ApiError) || error.status < 500) throw error
      unavailable += 1
    }
  }
  await crowd
  return { besideMs, bigMs: performance.now() - startedAt, unavailable }
}

/** Jain's index is 1 when all have the same, and 1/n when one has everything. */
async function measureShares (clients: readonly Client[], rows: number): Promise<number> {
  const work = clients.map(client => Promise.all(
    Array.from({ length: JOBS_AT_ONCE }, () => phones(rows))
      .map(inputs => timeJob(client, inputs, { pollEveryMs: 1_000 }))))
  const half = clients.length * JOBS_AT_ONCE * 100 / 2
  for (;;) {
    await delay(LEADER_POLL_MS)
    const shares = await Promise.all(clients.map(finished))
    const all = shares.reduce((sum, one) => sum + one, 0)
    if (all < half) continue
    await Promise.all(work)
    return all ** 2 / (shares.length * shares.reduce((sum, one) => sum + one ** 2, 0))
  }
}

/** In hundredths of a job. */
async function finished (client: Client): Promise<number> {
  const { data } = await client.jobsPage({ limit: 100 })
  return data.reduce((sum, { progressPercent }) => sum + progressPercent, 0)
}
