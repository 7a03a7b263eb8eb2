import { setTimeout as delay } from 'node:timers/promises'
import { createOrganizations } from '../accounts/organizations.ts'
import { isTenant, parseTenant, tenantOf } from '../accounts/tenant.ts'
import { count, counted, createProgressLine, duration } from '../client/terminal.ts'
import { createJobStore } from '../jobs/store.ts'
import { createTenants } from '../money/wallet.ts'
import { fetchLags } from '../runtime/kafka/admin.ts'
import type { KafkaAdmin } from '../runtime/kafka/client.ts'
import { splitBatches } from '../runtime/platform/batch-writes.ts'
import { isInfrastructure } from '../runtime/platform/errors.ts'
import type { RedisClient } from '../runtime/platform/redis.ts'
import { type Cell, type Column, type Paint, tableText } from '../runtime/platform/text-table.ts'
import {
  type AdminCommand, type CommandCall, type Context, MINUTE_MS, type Options, organizationToChange,
  parseFromZero, parseInteger, parseMode, parsePositive, runAndPrint,
} from './command-line.ts'
import { withState, withStores } from './deps.ts'
import { eraseJobs } from './erasure.ts'

type ListOptions = {
  readonly tenant?: string
  readonly stalled?: string | true
  readonly limit: string
}

const HELP = `
Jobs without progress for the longest time come first. A job makes progress when its status
changes or one of its rows completes.`
const DEFAULT_STALLED_SECONDS = '3600'

/** Adds `jobs`. */
export function addJobs (program: AdminCommand, context: Context): void {
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
    .action(runAndPrint<ListOptions>(context, async ({ env, options }, paint) => {
      const { tenant, stalled, limit } = options
      const seconds = stalled === true ? DEFAULT_STALLED_SECONDS : stalled
      const query = {
        tenant,
        idleForSeconds: seconds === undefined ? 0 : parsePositive('--stalled', seconds),
        limit: parseInteger('--limit', limit),
      }
      const jobs = await withState(env, redis => listOpenJobs(redis, query))
      return { data: jobs, text: jobsText(jobs, paint) }
    }))
}

/** An accepted, unclosed job. Fields are null when its record no longer exists. */
type OpenJobLine = {
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
  readonly tenant: string | undefined
  readonly idleForSeconds: number
  readonly limit: number
}

const MAX_CONCURRENT_READS = 200

/** Lists open jobs, those without progress for the longest time first. */
async function listOpenJobs (
  redis: RedisClient, { tenant, idleForSeconds, limit }: JobQuery
): Promise<OpenJobs> {
  const store = createJobStore(redis)
  const [seconds, micros] = await redis.time()
  const nowMs = Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000)
  const isIdle = (sinceMs: number) => nowMs - sinceMs >= idleForSeconds * 1_000
  const secondsSince = (thenMs: number) => Math.max(0, Math.floor((nowMs - thenMs) / 1_000))
  const tenants = (await createTenants(redis).all()).filter(name =>
    tenant === undefined || name === tenant ||
    (isTenant(name) && parseTenant(name).orgId === tenant))
  const old = (await readOpenJobs(redis, tenants)).filter(({ sinceMs }) => isIdle(sinceMs))
  const open = (await inBatches(old, async ({ tenant, job: id, sinceMs }) => {
    const job = await store.read(tenant, id)
    const progressAtMs = Math.max(sinceMs, job?.updatedAtMs ?? 0)
    // Rows that wait for a host are no standstill before they are due.
    const waiting = isIdle(progressAtMs) ? await store.waitingRows(tenant, id) : undefined
    return { tenant, id, job, progressAtMs: Math.max(progressAtMs, waiting?.lastDueMs ?? 0) }
  })).filter(({ progressAtMs }) => isIdle(progressAtMs))
    .toSorted((a, b) => a.progressAtMs - b.progressAtMs)
  const jobs = open.slice(0, limit).map(({ id, tenant, job, progressAtMs }) => ({
    id,
    tenant,
    service: job?.service ?? null,
    lane: job?.lane ?? null,
    status: job?.status ?? null,
    rowsDone: job?.counts.finishedRows ?? null,
    rows: job?.preflight.totalRows ?? null,
    ageSeconds: job === undefined ? null : secondsSince(job.createdAtMs),
    idleSeconds: secondsSince(progressAtMs),
  }))
  return { jobs, open: open.length }
}

async function readOpenJobs (redis: RedisClient, tenants: readonly string[]) {
  const store = createJobStore(redis)
  return (await inBatches(tenants, async tenant =>
    (await store.openJobs(tenant)).map(job => ({ tenant, ...job })))).flat()
}

async function inBatches<T, R> (
  items: readonly T[], read: (item: T) => Promise<R>
): Promise<readonly R[]> {
  const results: R[] = []
  for (const batch of splitBatches(items, MAX_CONCURRENT_READS)) {
    results.push(...await Promise.all(batch.map(read)))
  }
  return results
}

const COLUMNS: readonly Column[] = [
  { title: 'job' }, { title: 'tenant' }, { title: 'service' }, { title: 'status' },
  { title: 'rows', right: true }, { title: 'age', right: true },
  { title: 'no progress for', right: true },
]

/** Most jobs make progress every few seconds. Longer idle times are shown in red. */
const IDLE_WARNING_SECONDS = 300

/** Formats the table of open jobs and their number. */
function jobsText ({ jobs, open }: OpenJobs, paint: Paint): string {
  if (open === 0) return 'No open job matches.'
  const rows = jobs.map((job): readonly Cell[] => {
    const idle = duration(job.idleSeconds)
    return [
      job.id, job.tenant, job.service ?? '-', job.status ?? '-',
      job.rows === null ? '-' : `${count(job.rowsDone ?? 0)}/${count(job.rows)}`,
      job.ageSeconds === null ? '-' : duration(job.ageSeconds),
      job.idleSeconds < IDLE_WARNING_SECONDS ? idle : { text: idle, style: 'red' },
    ]
  })
  const hidden = open - jobs.length
  const rest = hidden === 0 ? '' : ` ${count(hidden)} more than --limit shows.`
  return `${tableText(COLUMNS, rows, paint)}\n${counted(open, 'job')} open.${rest}`
}

/** Adds `job erase`. */
export function addJobErasure (program: AdminCommand, context: Context): void {
  program.command('job').description('jobs')
    .command('erase').description('make all encrypted data of jobs permanently unreadable')
    .records('job.erased')
    .requiredOption('--org <id>', 'organization')
    .requiredOption('--job <ids>', 'comma-separated jobs; running jobs are cancelled first')
    .option('--mode <mode>', 'live or test', 'live')
    .option('--wait-minutes <minutes>', 'how long to wait until jobs end and copies are deleted',
      '30')
    .example('--org org_1 --job job_1,job_2')
    .action(runAndPrint<Options>(context, async ({ env, options }) => {
      const { org = '', job = '', waitMinutes } = options
      const waitMs = parseFromZero('--wait-minutes', waitMinutes) * MINUTE_MS
      const tenant = tenantOf(org, parseMode(options))
      const data = await withStores(env, async stores => {
        await organizationToChange({ organizations: createOrganizations(stores.redis) }, options)
        return await eraseJobs(stores, { tenant, jobs: [...new Set(job.split(','))], waitMs })
      })
      return { data, isUndone: !data.done }
    }))
}

const DRAIN_HELP = `
The command does not reject new jobs: stop ingest and feed first when a deployment needs empty
topics. It does not wait for contacts of partners that are not part of a job yet; they stay in
their own topics. Exit code 0 when everything is processed, 1 after --timeout.`

/** Adds `drain`. */
export function addDrain (program: AdminCommand, context: Context): void {
  program.command('drain').description('wait until no job is open and no group has lag')
    .reads()
    .option('--timeout <seconds>', 'maximum time to wait', '300')
    .addHelpText('after', DRAIN_HELP)
    .example()
    .example('--timeout 900 && echo empty')
    .action(runAndPrint<{ readonly timeout: string }>(context, async call => {
      const timeoutMs = parsePositive('--timeout', call.options.timeout) * 1_000
      const drained = await drain(call, context, timeoutMs)
      const text = drained.drained
        ? `Drained after ${drained.seconds} s.`
        : `Not drained after ${drained.seconds} s: ${backlogText(drained)}. ` +
          '"npm run admin -- lag" shows the progress.'
      return { data: drained, text, isUndone: !drained.drained }
    }))
}

type Backlog = {
  readonly openJobs: number
  readonly lagMessages: number
  /** The groups with lag. */
  readonly groups: readonly string[]
}

const QUERY_EVERY_MS = 500

/**
 * Waits until the backlog is empty, or for the time limit. Two consecutive queries must be empty,
 * because one query may miss work that moves between a topic and a job meanwhile. Waits too while
 * a store is unavailable that has answered before, as during a failover.
 */
async function drain (
  { env, json }: CommandCall<object>, { brokers, errors }: Context, timeoutMs: number
): Promise<Backlog & { readonly drained: boolean, readonly seconds: number }> {
  const line = createProgressLine<Backlog>(errors, { textOf: backlogText })
  try {
    return await brokers(env, admin => withState(env, async redis => {
      const startedMs = performance.now()
      const passedMs = () => performance.now() - startedMs
      let hasAnswered = false
      for (let emptyQueries = 0; ; await delay(QUERY_EVERY_MS)) {
        const backlog = await readBacklog(admin, redis).catch((error: unknown) => {
          if (!hasAnswered || !isInfrastructure(error) || passedMs() >= timeoutMs) throw error
        })
        if (backlog === undefined) {
          emptyQueries = 0
          continue
        }
        hasAnswered = true
        if (!json) line.show(backlog)
        emptyQueries = backlog.openJobs + backlog.lagMessages === 0 ? emptyQueries + 1 : 0
        const drained = emptyQueries >= 2
        if (drained || passedMs() >= timeoutMs) {
          return { drained, seconds: Math.round(passedMs() / 100) / 10, ...backlog }
        }
      }
    }))
  } finally {
    line.end()
  }
}

/** Jobs come first: when a job is closed, everything that it has written is in a topic. */
async function readBacklog (admin: KafkaAdmin, redis: RedisClient): Promise<Backlog> {
  const jobs = await readOpenJobs(redis, await createTenants(redis).all())
  const behind = (await fetchLags(admin)).filter(({ lag }) => lag > 0)
  return {
    openJobs: jobs.length,
    lagMessages: behind.reduce((sum, { lag }) => sum + lag, 0),
    groups: [...new Set(behind.map(({ group }) => group))],
  }
}

/** Formats the backlog as a line. */
function backlogText ({ openJobs, lagMessages, groups }: Backlog): string {
  const more = groups.length > 3 ? `, and ${groups.length - 3} more` : ''
  const names = groups.length === 0 ? '' : ` (${groups.slice(0, 3).join(', ')}${more})`
  return `${counted(openJobs, 'job')} open, lag of ${counted(lagMessages, 'message')}${names}`
}
