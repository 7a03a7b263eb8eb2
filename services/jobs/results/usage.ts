import type { UsageGroup } from '../../../schemas/api/usage.ts'
import { ROW_STATUSES } from '../../../schemas/api/verdicts.ts'
import type { Job } from '../job.ts'
import { verdictsBody } from '../job-view.ts'
import { eventLoop } from '../../runtime/platform/event-loop.ts'
import type { Archive } from './archive.ts'

type GroupName = 'day' | 'service' | 'key'
type Counts = Omit<UsageGroup, GroupName>

export type UsageOptions = {
  /** Jobs created from here on, and before `toMs`. */
  readonly fromMs: number
  readonly toMs: number
  readonly groupBy: readonly GroupName[]
  /** The most jobs to read, `MAX_USAGE_JOBS` by default. */
  readonly maxJobs?: number
}

/** Groups in their order, and their sum; `too_many`: the range has too many jobs to be read. */
export type Usage =
  | { readonly kind: 'usage', readonly groups: readonly UsageGroup[], readonly total: Counts }
  | { readonly kind: 'too_many', readonly maxJobs: number }

/** Reading so many records takes some seconds. */
const MAX_USAGE_JOBS = 250_000
/** Records that are verified and added in about two milliseconds. */
const JOBS_PER_SLOT = 50

/**
 * Adds up the final records of a tenant. Sums of ClickHouse would include forged rows, and a job
 * twice that is stored twice; so every record is verified here, and each job counts once.
 */
export async function readUsage (
  archive: Pick<Archive, 'createdBetween'>, tenant: string, options: UsageOptions
): Promise<Usage> {
  const { maxJobs = MAX_USAGE_JOBS } = options
  const total = noCounts()
  const groups = new Map<string, UsageGroup>()
  for await (const job of archive.createdBetween(tenant, options)) {
    if (total.jobs === maxJobs) return { kind: 'too_many', maxJobs }
    if (total.jobs % JOBS_PER_SLOT === 0) await eventLoop.yield('bulk', tenant)
    const name = nameOf(job, options.groupBy)
    const key = JSON.stringify(Object.values(name))
    const group = groups.get(key) ?? { ...name, ...noCounts() }
    groups.set(key, group)
    add(total, job)
    add(group, job)
  }
  const sorted = [...groups].sort(([one], [other]) => one < other ? -1 : 1)
  return { kind: 'usage', groups: sorted.map(([, group]) => group), total }
}

function nameOf (job: Job, groupBy: readonly GroupName[]): Pick<UsageGroup, GroupName> {
  const names = {
    day: new Date(job.createdAtMs).toISOString().slice(0, 10),
    service: job.service,
    key: job.apiKey ?? null,
  }
  return Object.fromEntries(groupBy.map(name => [name, names[name]]))
}

const noCounts = (): Counts => ({
  jobs: 0,
  totalRows: 0,
  cacheHits: 0,
  freshRecords: 0,
  invalidRecords: 0,
  duplicateRecords: 0,
  unknownRecords: 0,
  cancelledRecords: 0,
  successRecords: 0,
  failedRecords: 0,
  chargedMicros: 0,
  verdicts: { valid: 0, invalid: 0, risky: 0, unknown: 0 },
})

const ROWS = [
  'cacheHits', 'freshRecords', 'invalidRecords', 'duplicateRecords', 'unknownRecords',
  'cancelledRecords', 'successRecords', 'failedRecords',
] as const

function add (sum: Counts, job: Job): void {
  const { preflight, counts, chargedMicros } = job
  sum.jobs += 1
  sum.totalRows += preflight.totalRows
  for (const name of ROWS) sum[name] += counts[name]
  sum.chargedMicros += chargedMicros
  const { verdicts } = verdictsBody(job)
  if (verdicts === null) return
  for (const status of ROW_STATUSES) sum.verdicts[status] += verdicts[status]
}
