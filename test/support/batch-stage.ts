import type { Incoming, Stage } from '../../services/runtime/engine/stage.ts'
import type { ProviderName } from '../../services/jobs/checks.ts'
import type { Job, WaitingBatch } from '../../services/jobs/job.ts'
import type { JobStore } from '../../services/jobs/store.ts'
import { createChecker } from '../../services/verify/checker.ts'
import { createMetrics } from '../../services/runtime/platform/metrics.ts'
import { readHttpProviders } from '../../services/verify/providers/http-vendor.ts'
import { createVendorProvider } from '../../services/verify/providers/http.ts'
import { createVerifyStage, type VerifyDeps } from '../../services/verify/stage.ts'
import { redisSubmissions, TasksInFlight } from '../../services/verify/submissions.ts'
import type { ServiceSlug } from '../../services/topology.ts'
import { createCacheDouble } from './cache-double.ts'
import { cellsIn } from './clickhouse/cells.ts'
import {
  acceptedJob, createManualClock, delivered, emitted, JOB, rowsOf,
  VERIFY_SETTINGS,
} from './stage-messages.ts'

type Lists = Readonly<Partial<Record<ServiceSlug, readonly ProviderName[]>>>

type StoreDouble = Pick<JobStore, 'outcome' | 'batchAction' | 'recordWaiting'> & {
  readonly jobs: Map<string, Job>
  /** What waits of each verification batch, `<chunk>:<batch>`. */
  readonly waiting: Map<string, WaitingBatch>
  /** Changes a job, as other stages would. */
  readonly change: (job: string, change: Partial<Job>) => void
  /** The next question about a job fails so. */
  readonly failNext: (error: Error) => void
}

/** What `verify` asks the job store, in memory, where one job was accepted. */
function createStoreDouble (): StoreDouble {
  const jobs = new Map([[JOB, acceptedJob()]])
  const waiting = new Map<string, WaitingBatch>()
  let failure: Error | undefined
  const find = (id: string): Job | undefined => {
    const error = failure
    failure = undefined
    if (error !== undefined) throw error
    return jobs.get(id)
  }
  return {
    jobs,
    waiting,
    change: (id, changes) => {
      const job = jobs.get(id)
      if (job !== undefined) jobs.set(id, { ...job, ...changes })
    },
    failNext: (error) => { failure = error },
    outcome: async (_tenant, id) => {
      const job = find(id)
      return job === undefined ? { kind: 'open' } : { kind: 'accepted', job }
    },
    batchAction: async (_tenant, id) => {
      const job = find(id)
      if (job === undefined || job.ended) return { action: 'skip' }
      if (job.status === 'cancelling') return { action: 'cancelling' }
      const { deadlineMs } = job
      return { action: 'run', ...deadlineMs !== undefined && { deadlineMs } }
    },
    recordWaiting: async ({ batch, waiting: rows }) => {
      const name = `${batch.chunk}:${batch.batch}`
      if (rows === undefined) waiting.delete(name)
      else waiting.set(name, rows)
    },
  }
}

/** A verify stage that checks rows so, and what it has: an accepted job, time and a cache. */
export function createVerify (check: VerifyDeps['check']) {
  const clock = createManualClock()
  const store = createStoreDouble()
  const cache = createCacheDouble()
  const counted: string[] = []
  const stage = createVerifyStage({
    store,
    cache,
    check,
    clock,
    sleep: clock.sleep,
    metrics: { count: (name: string) => { counted.push(name) } },
    ...VERIFY_SETTINGS,
  })
  return { clock, store, cache, counted, stage }
}

/** The hashes of a Redis, in memory. */
export function createHashesDouble () {
  const hashes = new Map<string, Map<string, Buffer>>()
  const expiries = new Map<string, number>()
  const redis = {
    hgetallBuffer: async (key: string) => Object.fromEntries(hashes.get(key) ?? []),
    hset: async (key: string, field: string, value: Buffer) => {
      hashes.set(key, (hashes.get(key) ?? new Map<string, Buffer>()).set(field, value))
    },
    pexpire: async (key: string, ms: number) => { expiries.set(key, ms) },
    hdel: async (key: string, field: string) => { hashes.get(key)?.delete(field) },
  }
  return { redis: redis as unknown as Parameters<typeof redisSubmissions>[0], hashes, expiries }
}

export const MESSAGE_KEYS = {
  MESSAGE_KEYS: { 1: Buffer.alloc(32, 7).toString('base64') }, MESSAGE_KEY_ACTIVE: '1',
} as const

type World = {
  readonly described: readonly object[]
  readonly lists: Lists
  readonly second?: Lists
}

/** What survives a crash of `verify`, and how to start it again. */
export function createBatchEnvironment ({ described, lists, second }: World) {
  const clock = createManualClock()
  const store = createStoreDouble()
  const cache = createCacheDouble()
  const { redis, hashes } = createHashesDouble()
  const { providers, faults } = readHttpProviders(described, true)
  if (faults.length > 0) throw new Error(faults.join('; '))
  const counted: string[] = []
  const tasks = new TasksInFlight()
  const metrics = createMetrics()
  tasks.watch(metrics, () => clock.now())
  /** The series of tasks that vendors have. */
  const taskSeries = async () => (await metrics.text()).split('\n')
    .filter((line) => line.startsWith('vendor_task')).toSorted()
  const start = () => createVerifyStage({
    store,
    cache,
    check: createChecker({
      lists,
      ...second === undefined ? {} : { secondLists: second },
      limits: {
        timeoutMs: 2_000,
        concurrency: 4,
        retries: 1,
        breaker: { failingShare: 0.9, sampledMs: 30_000, openMs: 60_000 },
      },
      factories: Object.fromEntries(providers.map((vendor) =>
        [`http:${vendor.id}`, () => createVendorProvider(vendor)])),
    }),
    submissionsOf: redisSubmissions(redis, { ...MESSAGE_KEYS, clock }),
    tasks,
    clock,
    sleep: clock.sleep,
    metrics: { count: (name: string) => { counted.push(name) } },
    ...VERIFY_SETTINGS,
  })
  return { clock, store, cache, hashes, counted, taskSeries, start }
}

export type BatchEnvironment = ReturnType<typeof createBatchEnvironment>

type Message = Incoming<'rows.to-verify' | 'rows.retry'>
type Decided = Awaited<ReturnType<Stage<'verify'>['decide']>>

/** More than any batch has: four hours of a question each 30 s. */
const MAX_RETRIES = 500

/**
 * Follows a batch until its last row has ended, as the topics would: `verify` is started again
 * after each crash, and gets the message that it had not completed. Resolves to the final rows as
 * `[row, status of the verdict, reason]`, and to the number of retries.
 */
export async function follow (
  environment: BatchEnvironment, first: Message, maxRetries = MAX_RETRIES
) {
  const signal = new AbortController().signal
  const rows: (readonly [number, string, string])[] = []
  const decisions: Decided[number][] = []
  let stage = environment.start()
  let crashes = 0
  let retries = 0
  let message = first
  for (;;) {
    const decided: Decided | undefined = await stage.decide([message], signal)
      .catch((error: unknown) => {
        if (error instanceof Error && error.message === 'crash') return undefined
        throw error
      })
    if (decided === undefined) {
      crashes++
      stage = environment.start()
      continue
    }
    decisions.push(...decided)
    for (const block of emitted(decided, 'rows.completed')) {
      const [statuses, reasons] = [cellsIn(block.rows, 'status'), cellsIn(block.rows, 'reason')]
      rows.push(...rowsOf(block.value.finished).map((row, at) =>
        [row, statuses?.[at] ?? '', reasons?.[at] ?? ''] as const))
    }
    const [retry] = emitted(decided, 'rows.retry')
    if (retry === undefined) break
    if (++retries > maxRetries) throw new Error(`the batch is retried for the ${retries}th time`)
    environment.clock.advance(retry.value.notBefore - environment.clock.now())
    message = delivered(retry) as Message
  }
  return { rows: rows.toSorted(([a], [b]) => a - b), retries, crashes, decisions }
}
