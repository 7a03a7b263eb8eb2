import type { Incoming, Stage } from '../../services/runtime/engine/stage.ts'
import type { ProviderName } from '../../services/jobs/checks.ts'
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
  acceptedJob, createManualClock, createStoreDouble, delivered, emitted, JOB, rowsOf,
  VERIFY_SETTINGS,
} from './stage-doubles.ts'

type Lists = Readonly<Partial<Record<ServiceSlug, readonly ProviderName[]>>>

/** A verify stage that checks rows so, and what it has: an accepted job, time and a cache. */
export function createVerify (check: VerifyDeps['check']) {
  const clock = createManualClock()
  const store = createStoreDouble()
  store.jobs.set(JOB, acceptedJob())
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
  store.jobs.set(JOB, acceptedJob())
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
