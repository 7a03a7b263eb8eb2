import type { Scenario } from './options.ts'
import type { Report } from './run.ts'

export type Unit =
  'ratio' | 'ms' | 'CPU ms' | 'MB' | 'bytes' | '% of a core' | 'rows/s' | 'jobs/s'

/** The limit of a figure, and optionally a stricter target. */
export type Limit = {
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

/** A ratio without a denominator in its name is divided by the bare loop of the same run. */
export const LIMITS: readonly Limit[] = [
  {
    figure: 'ratio_bare: fresh large job, POST to completed',
    unit: 'ratio',
    bound: 'upper',
    limit: 0.75,
    target: 0.6,
    valueOf: report => report.ratioBare,
  },
  {
    figure: 'the same with the CSV downloaded',
    unit: 'ratio',
    bound: 'upper',
    limit: 0.95,
    target: 0.8,
    valueOf: report => report.ratioWithCsv,
  },
  {
    figure: 'the same job again, all cached',
    unit: 'ratio',
    bound: 'upper',
    limit: 0.6,
    target: 0.45,
    valueOf: report => report.ratioCached,
  },
  {
    figure: 'preflight of a large job, POST to 202',
    unit: 'ratio',
    bound: 'upper',
    limit: 0.6,
    target: 0.4,
    valueOf: report => report.ratioPreflight,
  },
  {
    figure: 'the sealed normalize hop alone',
    unit: 'ratio',
    bound: 'upper',
    limit: 0.6,
    target: 0.5,
    scenario: 'peers',
    valueOf: report => report.peers?.sealed.ratio,
  },
  {
    figure: 'growth: wall time of all rows / of a tenth',
    unit: 'ratio',
    bound: 'upper',
    limit: 11,
    target: 9,
    scenario: 'growth',
    valueOf: report => report.growth?.ratio,
  },
  {
    figure: '100 rows all cached, idle, p50',
    unit: 'ms',
    bound: 'upper',
    limit: 30,
    target: 20,
    valueOf: report => report.cached100.p50Ms,
  },
  {
    figure: '100 rows all cached, idle, p95',
    unit: 'ms',
    bound: 'upper',
    limit: 50,
    target: 35,
    valueOf: report => report.cached100.p95Ms,
  },
  {
    figure: 'the same beside ten large jobs, p95 / idle p95',
    unit: 'ratio',
    bound: 'upper',
    limit: 5,
    target: 3,
    scenario: 'crowd',
    valueOf: report => report.crowd?.ratio,
  },
  {
    figure: '100 fresh rows, idle, p95',
    unit: 'ms',
    bound: 'upper',
    limit: 90,
    target: 60,
    valueOf: report => report.fresh100.p95Ms,
  },
  {
    figure: 'peak memory of a service, ten large jobs',
    unit: 'MB',
    bound: 'upper',
    limit: 300,
    target: 200,
    scenario: 'crowd',
    valueOf: report => report.crowd?.peakMb,
  },
  {
    figure: 'memory after a soak / after its first minute',
    unit: 'ratio',
    bound: 'upper',
    limit: 1.2,
    target: 1.05,
    scenario: 'soak',
    valueOf: report => report.soak?.worst.ratio,
  },
  {
    figure: 'idle CPU of all services',
    unit: '% of a core',
    bound: 'upper',
    limit: 2,
    target: 1,
    valueOf: report => report.idleCpuPercent,
  },
  {
    figure: 'e-mail rows through email-domain, MX known',
    unit: 'rows/s',
    bound: 'lower',
    limit: 15_000,
    target: 30_000,
    scenario: 'email',
    valueOf: report => report.email?.rowsPerSecond,
  },
  {
    figure: 'one cached contact, POST /verifications, p50',
    unit: 'ms',
    bound: 'upper',
    limit: 25,
    scenario: 'verifications',
    valueOf: report => report.verifications?.cached.p50Ms,
  },
  {
    figure: 'one fresh contact, by its numbering plan, p50',
    unit: 'ms',
    bound: 'upper',
    limit: 35,
    scenario: 'verifications',
    valueOf: report => report.verifications?.fresh.p50Ms,
  },
  {
    figure: 'job beside ten of another organization / alone',
    unit: 'ratio',
    bound: 'upper',
    limit: 2.5,
    scenario: 'fairness',
    valueOf: report => report.fairness?.ratio,
  },
  {
    figure: 'Jain\'s index, ten organizations of equal load',
    unit: 'ratio',
    bound: 'lower',
    limit: 0.95,
    scenario: 'fairness',
    valueOf: report => report.fairness?.jainIndex,
  },
  {
    figure: 'first 202 after a kill of the state Redis',
    unit: 'ms',
    bound: 'upper',
    limit: 5_000,
    scenario: 'recovery',
    valueOf: ({ recovery }) => recovery &&
      Math.max(...recovery.afterKill.map(step => step.firstAcceptedMs)),
  },
  {
    figure: 'the same, all its files deleted, jobs open',
    unit: 'ms',
    bound: 'upper',
    limit: 30_000,
    scenario: 'recovery',
    valueOf: report => report.recovery?.afterDataLoss.firstAcceptedMs,
  },
  {
    figure: 'the same, until the last tenant is unlocked',
    unit: 'ms',
    bound: 'upper',
    limit: 90_000,
    scenario: 'recovery',
    valueOf: report => report.recovery?.afterDataLoss.allUnlockedMs,
  },
  {
    figure: 'peak memory of ledger during recovery',
    unit: 'MB',
    bound: 'upper',
    limit: 200,
    scenario: 'recovery',
    valueOf: report => report.recovery?.peakMb,
  },
  {
    figure: 'idle CPU of ledger with twice as many tenants',
    unit: '% of a core',
    bound: 'upper',
    limit: 1,
    scenario: 'recovery',
    valueOf: report => report.recovery?.idlePercent,
  },
  {
    figure: 'state Redis, a job an hour after its end',
    unit: 'bytes',
    bound: 'upper',
    limit: 200,
    scenario: 'recovery',
    valueOf: report => report.recovery?.bytesPerJob,
  },
  {
    figure: 'one-row fresh jobs, p95 of POST below 250 ms',
    unit: 'jobs/s',
    bound: 'lower',
    limit: 250,
    target: 400,
    scenario: 'small',
    valueOf: ({ small }) => small && (small.highest?.jobsPerSecond ?? 0),
  },
  {
    figure: 'CPU of all processes for one of these jobs',
    unit: 'CPU ms',
    bound: 'upper',
    limit: 8,
    target: 5,
    scenario: 'small',
    valueOf: ({ small }) => small && (small.highest?.cpuMsPerJob ?? NaN),
  },
  {
    figure: 'one fresh contact, POST to completed, p50',
    unit: 'ms',
    bound: 'upper',
    limit: 30,
    target: 20,
    scenario: 'small',
    valueOf: report => report.small?.oneFresh.p50Ms,
  },
  {
    figure: 'one cached contact, POST to completed, p50',
    unit: 'ms',
    bound: 'upper',
    limit: 30,
    target: 20,
    scenario: 'small',
    valueOf: report => report.small?.oneCached.p50Ms,
  },
  {
    figure: 'resident memory of all services after start',
    unit: 'MB',
    bound: 'upper',
    limit: 600,
    target: 400,
    scenario: 'small',
    valueOf: report => report.small?.residentMb,
  },
]

type LimitStatus = 'target met' | 'limit met' | 'limit missed' | 'not measured'

export type LimitCheck = Omit<Limit, 'valueOf'> & {
  readonly status: LimitStatus
  readonly value?: number
  /** Difference in percent of the limit; only of a missed limit. */
  readonly missedByPercent?: number
}

/** Compares a value with its limit and its target. A value equal to a bound meets it. */
export function checkLimit (
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
