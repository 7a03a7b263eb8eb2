import { createOrganizations } from '../accounts/organizations.ts'
import { partsOf, tenantOf } from '../accounts/tenant.ts'
import {
  createJobKeyEraser, type ErasedJobs, type JobKeyEraser, type KeyCopies,
} from '../jobs/job-key-eraser.ts'
import { KEY_CACHE_MS } from '../jobs/job-keys.ts'
import type { Job } from '../jobs/job.ts'
import { createArchive } from '../jobs/results/archive.ts'
import { createJobStore, type JobStore } from '../jobs/store.ts'
import type { Environment } from '../runtime/platform/command-environment.ts'
import { sleep } from '../runtime/platform/retry.ts'
import { CommandFailure, UsageError } from '../runtime/platform/run-command.ts'
import type { AdminCommand } from './admin-command.ts'
import {
  MINUTE_MS, parseMode, type Options, organizationToChange, parseFromZero, runAndPrint, type Screen,
} from './command-line.ts'
import { type Stores, withStores } from './connections.ts'

/** Adds `job erase`. */
export function addJobErasure (program: AdminCommand, screen: Screen): void {
  program.command('job').description('jobs')
    .command('erase').description('make all encrypted data of jobs permanently unreadable')
    .records('job.erased')
    .requiredOption('--org <id>', 'organization')
    .requiredOption('--job <ids>', 'comma-separated jobs; running jobs are cancelled first')
    .option('--mode <mode>', 'live or test', 'live')
    .option('--wait-minutes <minutes>', 'how long to wait until jobs end and copies are deleted',
      '30')
    .example('--org org_1 --job job_1,job_2')
    .action(runAndPrint<Options>(screen, async ({ env, options }) => {
      const erasure = await runErase(env, options)
      return { data: { ...erasure, note: erasureNote(erasure) }, isUndone: !erasure.done }
    }))
}

const POLL_MS = 1_000

export type EraseDeps = {
  readonly store: Pick<JobStore, 'read' | 'cancel'>
  readonly findArchived: (tenant: string, job: string) => Promise<Job | undefined>
  readonly keys: JobKeyEraser
  /** Milliseconds of any clock. */
  readonly now: () => number
  readonly sleep: typeof sleep
}

type EraseRequest = ErasedJobs & {
  /** How long to wait until running jobs end and copies of their keys are deleted. */
  readonly waitMs: number
  readonly pollMs: number
}

/** A job, and how many copies of its wrapped key the final scan found. */
type ErasedJob = {
  readonly job: string
  readonly status: string
  readonly copiesInRedis: number
  /** Messages in the topic `job.keys` that contain the wrapped key. */
  readonly copiesInTopic: number
  readonly copiesInClickhouse: number
  readonly copiesInDeadLetters: number
}

type Erasure = {
  /** True when the final scan found no copy of any wrapped key. */
  readonly done: boolean
  /** Whether the state Redis rewrote its append-only file; `none` when it keeps none. */
  readonly aof: 'rewritten' | 'none'
  readonly jobs: readonly ErasedJob[]
}

/**
 * `job erase` on the stack in `env`.
 * @throws UsageError for invalid options, an unknown or erased organization, unknown jobs, and jobs
 * that do not end in time.
 */
async function runErase (
  env: Environment, options: Options
): Promise<Erasure> {
  const { org = '', job = '', waitMinutes } = options
  const minutes = parseFromZero('--wait-minutes', waitMinutes)
  const jobs = [...new Set(job.split(','))]
  const request = {
    tenant: tenantOf(org, parseMode(options)), jobs, waitMs: minutes * MINUTE_MS, pollMs: POLL_MS,
  }
  return await withStores(env, async stores => {
    await organizationToChange({ organizations: createOrganizations(stores.redis) }, options)
    return await eraseJobs(createEraseDeps(stores), request)
  })
}

/** The dependencies of `eraseJobs` on open connections. */
export function createEraseDeps (stores: Stores): EraseDeps {
  const archive = createArchive(stores.clickhouse, stores.recordMac)
  return {
    store: createJobStore(stores.redis),
    findArchived: async (tenant, job) => (await archive.find(tenant, job))?.job,
    keys: createJobKeyEraser(stores),
    now: Date.now,
    sleep,
  }
}

/** The next step for the operator, in words. */
export function erasureNote ({ done, aof }: Erasure): string {
  if (!done) {
    return 'The jobs are unreadable, but copies of wrapped keys remain. Brokers delete their ' +
      'copies within max.compaction.lag.ms of job.keys: run the command again after that.'
  }
  return aof === 'none'
    ? 'Redis keeps no append-only file; delete its snapshots by hand.'
    : 'Done.'
}

/**
 * Deletes the data keys of jobs, which makes everything encrypted with them permanently
 * unreadable: inputs, results, labels and webhook addresses. Running jobs are cancelled first and
 * settle as usual; their money remains accounted for. Every step can be repeated.
 * @throws UsageError for an unknown job, and when jobs do not end within `waitMs`.
 */
export async function eraseJobs (deps: EraseDeps, request: EraseRequest): Promise<Erasure> {
  const { keys, now } = deps
  const deadlineMs = now() + request.waitMs
  const closed = await waitUntilClosed(deps, request, deadlineMs)
  const wrapped = await keys.remove(request)
  const removedAtMs = now()
  const aof = await keys.rewriteAof()
  // After this time no process has a key in its memory any more.
  await deps.sleep(Math.max(0, removedAtMs + KEY_CACHE_MS - now()))
  const inTopic = await waitUntilCompacted(deps, request, deadlineMs)
  // ClickHouse comes after the topic, because ledger copies keys from the topic to ClickHouse.
  await keys.removeCopies(request)
  const inClickhouse = await keys.copiesInClickhouse(request)
  const inDeadLetters = await keys.copiesInDeadLetters(wrapped)
  const inRedis = await keys.copiesInRedis(request)
  const jobs = closed.map(({ id, status }) => ({
    job: id,
    status,
    copiesInRedis: inRedis.get(id) ?? 0,
    copiesInTopic: inTopic.get(id) ?? 0,
    copiesInClickhouse: inClickhouse.get(id) ?? 0,
    copiesInDeadLetters: inDeadLetters.get(id) ?? 0,
  }))
  const copies = [inRedis, inTopic, inClickhouse, inDeadLetters]
  const gone = request.jobs.filter(job => copies.every(byJob => !byJob.has(job)))
  await keys.complete({ tenant: request.tenant, jobs: gone })
  return { done: gone.length === request.jobs.length, aof, jobs }
}

/** Cancels running jobs once, then returns all jobs when they are closed. */
async function waitUntilClosed (
  { store, findArchived, now, sleep: pause }: EraseDeps,
  { tenant, jobs, pollMs, waitMs }: EraseRequest, deadlineMs: number
): Promise<readonly Job[]> {
  const find = async (id: string): Promise<Job> => {
    const job = await store.read(tenant, id) ?? await findArchived(tenant, id)
    if (job !== undefined) return job
    const { orgId, mode } = partsOf(tenant)
    throw new UsageError(`${orgId} has no job ${id} in mode ${mode}. Check --org, --job and ` +
      '--mode.')
  }
  for (let isCancelled = false; ; isCancelled = true) {
    const current = await Promise.all(jobs.map(find))
    const open = current.filter(({ closed }) => !closed)
    if (open.length === 0) return current
    const running = isCancelled ? [] : open.filter(({ ended }) => !ended)
    for (const { id } of running) await store.cancel(tenant, id)
    if (now() >= deadlineMs) {
      const ids = open.map(({ id }) => id).join(', ')
      throw new CommandFailure(`cancelled, but not closed within ${waitMs / MINUTE_MS} minutes: ` +
        `${ids}. Nothing is erased. Run the command again.`)
    }
    await pause(pollMs)
  }
}

/**
 * Waits until the brokers have compacted `job.keys`, and returns the copies that remain at the
 * deadline. Brokers never compact the active segment, so each poll writes the tombstones again:
 * that makes a quiet topic roll its segment.
 */
async function waitUntilCompacted (
  { keys, now, sleep: pause }: EraseDeps, { tenant, jobs, pollMs }: EraseRequest,
  deadlineMs: number
): Promise<KeyCopies> {
  for (;;) {
    const copies = await keys.copiesInTopic(jobs)
    if (copies.size === 0 || now() >= deadlineMs) return copies
    await pause(pollMs)
    await keys.writeTombstones({ tenant, jobs: [...copies.keys()] })
  }
}
