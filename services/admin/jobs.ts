import { count, counted, duration } from '../client/terminal.ts'
import type { Job } from '../jobs/job.ts'
import { createJobStore, type JobStore } from '../jobs/store.ts'
import type { OpenJob } from '../jobs/store-types.ts'
import type { Environment } from '../runtime/platform/command-environment.ts'
import { createTenants } from '../money/tenants.ts'
import { tableText, type Cell, type Column, type Paint } from '../runtime/platform/text-table.ts'
import type { AdminCommand } from './admin-command.ts'
import { parseInteger, parsePositive, runAndPrint, type Screen } from './command-line.ts'
import { withState } from './connections.ts'

type Options = {
  readonly tenant?: string
  readonly stalled?: string | true
  readonly limit: string
}

const HELP = `
Jobs without progress for the longest time come first. A job makes progress when its status
changes or one of its rows completes.`

/** Adds `jobs`. */
export function addJobs (program: AdminCommand, screen: Screen): void {
  program.command('jobs').description('list the accepted, unclosed jobs of all customers')
    .reads()
    .option('--tenant <tenant>', 'only of this organization, or this organization and mode')
    .option('--stalled [seconds]', 'only jobs without progress for this time (3600 by default)')
    .option('--limit <number>', 'maximum number of jobs to show', '50')
    .addHelpText('after', HELP)
    .example()
    .example('--tenant org_01jd3v8zj7m5n2k4q6r8s0t1w3.live')
    .example('--stalled', 'no progress for an hour')
    .example('--stalled 60 --json', 'no progress for a minute')
    .action(runAndPrint<Options>(screen, async ({ env, options }, paint) => {
      const { tenant, stalled, limit } = options
      const seconds = stalled === true ? DEFAULT_STALLED_SECONDS : stalled
      const query = {
        tenant,
        idleForSeconds: seconds === undefined ? 0 : parsePositive('--stalled', seconds),
        limit: parseInteger('--limit', limit),
      }
      const jobs = await withJobs(env, deps => listOpenJobs(deps, query))
      return { data: jobs, text: jobsText(jobs, paint) }
    }))
}

const DEFAULT_STALLED_SECONDS = '3600'

/** Runs work with the job records of the state Redis in the environment. */
export async function withJobs<T> (
  env: Environment, work: (deps: OpenJobsDeps) => Promise<T>
): Promise<T> {
  return await withState(env, async redis => {
    const nowMs = async () => {
      const [seconds, micros] = await redis.time()
      return Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000)
    }
    const tenants = createTenants(redis).all
    return await work({ store: createJobStore(redis), tenants, nowMs })
  })
}

/** An accepted, unclosed job. Fields are null when its record no longer exists. */
export type OpenJobLine = {
  readonly id: string
  readonly tenant: string
  readonly service: string | null
  readonly lane: string | null
  readonly status: string | null
  readonly rowsDone: number | null
  readonly rows: number | null
  readonly ageSeconds: number | null
  /** Time since the last change of its status or rows. */
  readonly idleSeconds: number
}

type OpenJobs = {
  readonly jobs: readonly OpenJobLine[]
  /** Number of matching jobs, including those beyond the limit. */
  readonly open: number
}

type JobQuery = {
  /** A tenant, or an organization with all its modes. */
  readonly tenant?: string | undefined
  readonly idleForSeconds: number
  readonly limit: number
}

export type OpenJobsDeps = {
  readonly store: Pick<JobStore, 'openJobs' | 'read'>
  readonly tenants: () => Promise<readonly string[]>
  /** The clock of Redis. */
  readonly nowMs: () => Promise<number>
}

const MAX_CONCURRENT_READS = 200

/** Lists open jobs, those without progress for the longest time first. */
export async function listOpenJobs (
  deps: OpenJobsDeps, { tenant, idleForSeconds, limit }: JobQuery
): Promise<OpenJobs> {
  const isSelected = (name: string) =>
    tenant === undefined || name === tenant || name.startsWith(`${tenant}.`)
  const nowMs = await deps.nowMs()
  const isIdle = (sinceMs: number) => nowMs - sinceMs >= idleForSeconds * 1_000
  const old = (await readOpenJobs(deps, (await deps.tenants()).filter(isSelected)))
    .filter(({ sinceMs }) => isIdle(sinceMs))
  const open = (await inBatches(old, job => readJob(deps, job)))
    .filter(({ progressAtMs }) => isIdle(progressAtMs))
    .toSorted((a, b) => a.progressAtMs - b.progressAtMs)
  return { jobs: open.slice(0, limit).map(job => toLine(job, nowMs)), open: open.length }
}

/** Counts the open jobs of all tenants. */
export async function countOpenJobs (
  deps: Pick<OpenJobsDeps, 'store' | 'tenants'>
): Promise<number> {
  return (await readOpenJobs(deps, await deps.tenants())).length
}

type OfTenant = OpenJob & { readonly tenant: string }

async function readOpenJobs (
  { store }: Pick<OpenJobsDeps, 'store'>, tenants: readonly string[]
): Promise<readonly OfTenant[]> {
  return (await inBatches(tenants, async tenant =>
    (await store.openJobs(tenant)).map(job => ({ tenant, ...job })))).flat()
}

async function inBatches<T, R> (
  items: readonly T[], read: (item: T) => Promise<R>
): Promise<readonly R[]> {
  const results: R[] = []
  for (let from = 0; from < items.length; from += MAX_CONCURRENT_READS) {
    results.push(...await Promise.all(items.slice(from, from + MAX_CONCURRENT_READS).map(read)))
  }
  return results
}

type JobProgress = {
  readonly tenant: string
  readonly id: string
  readonly job: Job | undefined
  readonly progressAtMs: number
}

async function readJob (
  { store }: Pick<OpenJobsDeps, 'store'>, { tenant, job: id, sinceMs }: OfTenant
): Promise<JobProgress> {
  const job = await store.read(tenant, id)
  return { tenant, id, job, progressAtMs: Math.max(sinceMs, job?.updatedAtMs ?? 0) }
}

function toLine ({ tenant, id, job, progressAtMs }: JobProgress, nowMs: number): OpenJobLine {
  return {
    id,
    tenant,
    service: job?.service ?? null,
    lane: job?.lane ?? null,
    status: job?.status ?? null,
    rowsDone: job?.counts.finishedRows ?? null,
    rows: job?.preflight.totalRows ?? null,
    ageSeconds: job === undefined ? null : secondsSince(job.createdAtMs, nowMs),
    idleSeconds: secondsSince(progressAtMs, nowMs),
  }
}

function secondsSince (thenMs: number, nowMs: number): number {
  return Math.max(0, Math.floor((nowMs - thenMs) / 1_000))
}

const COLUMNS: readonly Column[] = [
  { title: 'job' }, { title: 'tenant' }, { title: 'service' }, { title: 'status' },
  { title: 'rows', right: true }, { title: 'age', right: true },
  { title: 'no progress for', right: true },
]

/** Most jobs make progress every few seconds. Longer idle times are shown in red. */
const IDLE_WARNING_SECONDS = 300

/** Formats the table of open jobs and their number. */
export function jobsText ({ jobs, open }: OpenJobs, paint: Paint): string {
  if (open === 0) return 'No open job matches.'
  const hidden = open - jobs.length
  const rest = hidden === 0 ? '' : ` ${count(hidden)} more than --limit shows.`
  return `${tableText(COLUMNS, jobs.map(toCells), paint)}\n${counted(open, 'job')} open.${rest}`
}

function toCells (line: OpenJobLine): readonly Cell[] {
  const { id, tenant, service, status, rowsDone, rows, ageSeconds, idleSeconds } = line
  const idle = duration(idleSeconds)
  return [
    id, tenant, service ?? '-', status ?? '-',
    rows === null ? '-' : `${count(rowsDone ?? 0)}/${count(rows)}`,
    ageSeconds === null ? '-' : duration(ageSeconds),
    idleSeconds < IDLE_WARNING_SECONDS ? idle : { text: idle, style: 'red' },
  ]
}
