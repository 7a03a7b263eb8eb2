import type { Incoming, Stage } from '../../../services/runtime/engine/stage.ts'
import { redisRecordCache } from '../../../services/cache/cache.ts'
import type { ProviderName } from '../../../services/jobs/checks.ts'
import { jobRedisKeys } from '../../../services/jobs/job-record.ts'
import { createMetrics } from '../../../services/runtime/platform/metrics.ts'
import type { ServiceSlug } from '../../../services/topology.ts'
import { Checker } from '../../../services/verify/checker.ts'
import { readHttpProviders } from '../../../services/verify/providers/http-vendor.ts'
import { createVendorProvider } from '../../../services/verify/providers/http.ts'
import { type VerifyDeps, VerifyStage } from '../../../services/verify/stage.ts'
import { redisSubmissions, TasksInFlight } from '../../../services/verify/submissions.ts'
import { cellsIn } from '../../support/clickhouse/results.ts'
import { acceptRequest, blockOf, jobClaim, upTo } from '../../support/jobs.ts'
import { startJobStore } from '../../support/redis/redis.ts'
import {
  batchOf, createManualClock, delivered, emitted, PROVIDER_LIMITS, rowsOf, VERIFY_SETTINGS,
} from '../../support/stage-messages.ts'

type StageDeps = Pick<VerifyDeps, 'checker'> & Partial<VerifyDeps>
type JobTerms = { readonly mode?: 'live' | 'test', readonly endWithinMs?: number | undefined }

type Vendors = {
  readonly described: readonly object[]
  readonly lists: Readonly<Partial<Record<ServiceSlug, readonly ProviderName[]>>>
  readonly second?: Vendors['lists']
}

export const MESSAGE_KEYS = {
  MESSAGE_KEYS: { 1: Buffer.alloc(32, 7).toString('base64') }, MESSAGE_KEY_ACTIVE: '1',
} as const

const JOB_ROWS = 10

/** Accepts jobs and starts `verify` for them, on a Redis that ends with the test file. */
export async function startVerify () {
  const { redis, store } = await startJobStore()
  const cache = redisRecordCache(redis, { onFault: error => { throw error } })
  let jobs = 0

  /** An accepted job, alone with its tenant, at the time of its acceptance. */
  const acceptJob = async ({ mode = 'live', endWithinMs }: JobTerms = {}) => {
    const [tenant, job] = [`org_${++jobs}.${mode}`, `job_${jobs}`]
    const claim = await store.claim(tenant, jobClaim(job, { endWithinMs }))
    if (claim.kind !== 'new') throw new Error('the job is not new')
    const request = acceptRequest(job, { freshChecks: JOB_ROWS, unitPriceMicros: 0 })
    const { kind } = await store.accept(tenant, request)
    if (kind === 'refused') throw new Error('the job is refused')
    const clock = createManualClock(claim.nowMs)
    const counted: string[] = []
    return {
      tenant,
      job,
      acceptedAtMs: claim.nowMs,
      clock,
      /** The names of what was counted. */
      counted,
      /** A stage of `verify` that checks rows so. */
      start: (deps: StageDeps): Stage<'verify'> => new VerifyStage({
        store,
        cache,
        clock,
        sleep: clock.sleep,
        metrics: { count: (name: string) => { counted.push(name) } },
        ...VERIFY_SETTINGS,
        ...deps,
      }),
      batch: (contacts: readonly string[], change: Parameters<typeof batchOf>[1] = {}) =>
        batchOf(contacts, { tenant, job, ...change }),
      cancel: () => store.cancel(tenant, job),
      /** Its rows end with verdicts, or cancelled. */
      end: (kind: 'live' | 'cancelled') => store.tally(
        tenant, blockOf({ job, chunkRows: JOB_ROWS, inputs: true }, { [kind]: upTo(JOB_ROWS) })),
      close: () => store.close(tenant, job),
      /** What waits of its verification batches, by `<chunk>:<batch>`. */
      waiting: async (): Promise<Readonly<Record<string, unknown>>> => {
        const batches = Object.entries(await redis.hgetall(jobRedisKeys(tenant, job).waiting))
        return Object.fromEntries(batches.map(([name, text]) => [name, JSON.parse(text)]))
      },
    }
  }

  /** An accepted job whose rows are checked by vendors that take batches. */
  const acceptVendorJob = async (vendors: Vendors) => {
    const accepted = await acceptJob()
    const { clock } = accepted
    const createVendorChecker = readVendors(vendors)
    const tasks = new TasksInFlight()
    const metrics = createMetrics()
    tasks.watch(metrics, () => clock.now())
    return {
      ...accepted,
      /** The series of tasks that vendors have. */
      taskSeries: async () => (await metrics.text()).split('\n')
        .filter((line) => line.startsWith('vendor_task')).toSorted(),
      /** A new process of `verify`. */
      start: () => accepted.start({
        checker: createVendorChecker(),
        submissionsOf: redisSubmissions(redis, { ...MESSAGE_KEYS, clock }),
        tasks,
      }),
    }
  }
  return { redis, store, cache, acceptJob, acceptVendorJob }
}

/** Creates the checker by these vendors, for each process one. */
function readVendors ({ described, lists, second }: Vendors): () => Checker {
  const { providers, faults } = readHttpProviders(described, true)
  if (faults.length > 0) throw new Error(faults.join('; '))
  return () => new Checker({
    lists,
    ...second && { secondLists: second },
    limits: {
      ...PROVIDER_LIMITS,
      timeoutMs: 2_000,
      retries: 1,
      breaker: { ...PROVIDER_LIMITS.breaker, failingShare: 0.9 },
    },
    factories: Object.fromEntries(providers.map((vendor) =>
      [`http:${vendor.id}`, () => createVendorProvider(vendor)])),
  })
}

type VendorJob = {
  readonly clock: ReturnType<typeof createManualClock>, readonly start: () => Stage<'verify'>
}

type Message = Incoming<'rows.to-verify' | 'rows.retry'>
type Decided = Awaited<ReturnType<Stage<'verify'>['decide']>>

/** More than any batch has. */
const MAX_RETRIES = 100

/**
 * Follows a batch until its last row has ended, as the topics would: `verify` is started again
 * after each crash, and gets the message that it had not completed. Resolves to the final rows as
 * `[row, status of the verdict, reason]`, and to the number of retries.
 */
export async function follow (
  { clock, start }: VendorJob, first: Message, maxRetries = MAX_RETRIES
) {
  const signal = new AbortController().signal
  const rows: (readonly [number, string, string])[] = []
  const decisions: Decided[number][] = []
  let stage = start()
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
      stage = start()
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
    clock.advance(retry.value.notBefore - clock.now())
    message = delivered(retry) as Message
  }
  return { rows: rows.toSorted(([a], [b]) => a - b), retries, crashes, decisions }
}
