import type { Scenario } from './options.ts'
import type { Report } from './run.ts'

export type Unit =
  'ratio' | 'ms' | 'CPU ms' | 'MB' | 'bytes' | '% of a core' | 'rows/s' | 'jobs/s'

/** The limit of a figure, and optionally a stricter target. */
type Limit = {
  readonly figure: string
  readonly unit: Unit
  /** `lower` where more is better. */
  readonly bound: 'upper' | 'lower'
  readonly limit: number
  readonly target?: number
  /** The scenario that measures the figure; undefined for a core figure. */
  readonly scenario?: Scenario
  readonly valueOf: (report: Report) => number | undefined
}

/** A limit, and a stricter target if there is one. */
type Bounds = readonly [limit: number, target?: number]

const limitOf = (bound: Limit['bound']) => (
  figure: string, unit: Unit, [limit, target]: Bounds, valueOf: Limit['valueOf'],
  scenario?: Scenario
): Limit => ({
  figure,
  unit,
  bound,
  limit,
  ...target !== undefined && { target },
  ...scenario !== undefined && { scenario },
  valueOf,
})
const atMost = limitOf('upper')
const atLeast = limitOf('lower')

/** A ratio without a denominator in its name is divided by the bare loop of the same run. */
const LIMITS: readonly Limit[] = [
  atMost('ratio_bare: fresh large job, POST to completed', 'ratio', [0.75, 0.6],
    report => report.ratioBare),
  atMost('the same with the CSV downloaded', 'ratio', [0.95, 0.8], report => report.ratioWithCsv),
  atMost('the same job again, all cached', 'ratio', [0.6, 0.45], report => report.ratioCached),
  atMost('preflight of a large job, POST to 202', 'ratio', [0.6, 0.4],
    report => report.ratioPreflight),
  atMost('the sealed normalize hop alone', 'ratio', [0.6, 0.5],
    report => report.peers?.sealed.ratio, 'peers'),
  atMost('growth: wall time of all rows / of a tenth', 'ratio', [11, 9],
    report => report.growth?.ratio, 'growth'),
  atMost('100 rows all cached, idle, p50', 'ms', [30, 20], report => report.cached100.p50Ms),
  atMost('100 rows all cached, idle, p95', 'ms', [50, 35], report => report.cached100.p95Ms),
  atMost('the same beside ten large jobs, p95 / idle p95', 'ratio', [5, 3],
    report => report.crowd?.ratio, 'crowd'),
  atMost('100 fresh rows, idle, p95', 'ms', [90, 60], report => report.fresh100.p95Ms),
  atMost('peak memory of a service, ten large jobs', 'MB', [300, 200],
    report => report.crowd?.peakMb, 'crowd'),
  atMost('memory after a soak / after its first minute', 'ratio', [1.2, 1.05],
    report => report.soak?.worst.ratio, 'soak'),
  atMost('idle CPU of all services', '% of a core', [2, 1], report => report.idleCpuPercent),
  atLeast('e-mail rows through email-domain, MX known', 'rows/s', [15_000, 30_000],
    report => report.email?.rowsPerSecond, 'email'),
  atMost('one cached contact, POST /verifications, p50', 'ms', [25],
    report => report.verifications?.cached.p50Ms, 'verifications'),
  atMost('one fresh contact, by its numbering plan, p50', 'ms', [35],
    report => report.verifications?.fresh.p50Ms, 'verifications'),
  atMost('large job with a reader of its rows / without', 'ratio', [1.1],
    report => report.provisional?.ratio, 'provisional'),
  atMost('job beside ten of another organization / alone', 'ratio', [2.5],
    report => report.fairness?.ratio, 'fairness'),
  atLeast('Jain\'s index, ten organizations of equal load', 'ratio', [0.95],
    report => report.fairness?.jainIndex, 'fairness'),
  atMost('first 202 after a kill of the state Redis', 'ms', [5_000],
    ({ recovery }) => recovery && Math.max(...recovery.afterKill.map(step => step.firstAcceptedMs)),
    'recovery'),
  atMost('the same, all its files deleted, jobs open', 'ms', [30_000],
    report => report.recovery?.afterDataLoss.firstAcceptedMs, 'recovery'),
  atMost('the same, until the last tenant is unlocked', 'ms', [90_000],
    report => report.recovery?.afterDataLoss.allUnlockedMs, 'recovery'),
  atMost('peak memory of ledger during recovery', 'MB', [200],
    report => report.recovery?.peakMb, 'recovery'),
  atMost('idle CPU of ledger with twice as many tenants', '% of a core', [1],
    report => report.recovery?.idlePercent, 'recovery'),
  atMost('state Redis, a job an hour after its end', 'bytes', [200],
    report => report.recovery?.bytesPerJob, 'recovery'),
  atLeast('one-row fresh jobs, p95 of POST below 250 ms', 'jobs/s', [250, 400],
    ({ small }) => small && (small.highest?.jobsPerSecond ?? 0), 'small'),
  atMost('CPU of all processes for one of these jobs', 'CPU ms', [8, 5],
    ({ small }) => small && (small.highest?.cpuMsPerJob ?? NaN), 'small'),
  atMost('one fresh contact, POST to completed, p50', 'ms', [30, 20],
    report => report.small?.oneFresh.p50Ms, 'small'),
  atMost('one cached contact, POST to completed, p50', 'ms', [30, 20],
    report => report.small?.oneCached.p50Ms, 'small'),
  atMost('resident memory of all services after start', 'MB', [600, 400],
    report => report.small?.residentMb, 'small'),
  atMost('state Redis, an entry of contact lists', 'bytes', [60],
    report => report.lists?.bytesPerEntry, 'lists'),
  atMost('preflight with 1,000,000 entries / without', 'ratio', [2],
    report => report.lists?.ratio, 'lists'),
  atMost('CPU of ingest, a job from a workbook / from CSV', 'ratio', [6],
    report => report.workbooks?.ratioIn, 'workbooks'),
  atMost('the same, its results as a workbook / as CSV', 'ratio', [5.5],
    report => report.workbooks?.ratioOut, 'workbooks'),
  atMost('peak memory of ingest, a workbook in and out', 'MB', [320],
    report => report.workbooks?.xlsx.peakMb, 'workbooks'),
  atMost('the same / with the rows as CSV', 'ratio', [1.3],
    ({ workbooks }) => workbooks && workbooks.xlsx.peakMb / workbooks.csv.peakMb, 'workbooks'),
]

type LimitStatus = 'target met' | 'limit met' | 'limit missed' | 'not measured'

export type LimitCheck = Omit<Limit, 'valueOf'> & {
  readonly status: LimitStatus
  readonly value?: number
  /** Difference in percent of the limit; only of a missed limit. */
  readonly missedByPercent?: number
}

/** Compares a value with its limit and its target. A value equal to a bound meets it. */
function checkLimit (
  limit: Omit<Limit, 'valueOf'>, value: number | undefined
): LimitCheck {
  const { bound, target } = limit
  if (value === undefined) return { ...limit, status: 'not measured' }
  const meets = (goal: number) => bound === 'upper' ? value <= goal : value >= goal
  if (target !== undefined && meets(target)) return { ...limit, value, status: 'target met' }
  if (meets(limit.limit)) return { ...limit, value, status: 'limit met' }
  const missedByPercent = Math.abs(value - limit.limit) / limit.limit * 100
  return { ...limit, value, status: 'limit missed', missedByPercent }
}

/** Compares a report with all limits. */
export function checkLimits (report: Report): readonly LimitCheck[] {
  return LIMITS.map(({ valueOf, ...limit }) => checkLimit(limit, valueOf(report)))
}

/** Returns the value as a share of its limit. Less is better for both kinds of bounds. */
export function shareOfLimit ({ bound, limit }: LimitCheck, value: number): number {
  return bound === 'upper' ? value / limit : limit / value
}
