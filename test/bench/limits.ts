import type { Part } from './options.ts'
import type { Report } from './report.ts'

export type Unit = 'ratio' | 'ms' | 'MB' | '% of a core' | 'rows/s'

/** What a figure may be, and what is aimed for; `least` where more is better. */
export type Limit = {
  readonly figure: string
  readonly unit: Unit
  readonly is: 'most' | 'least'
  readonly limit: number
  readonly aim?: number
  /** The part that measures it; without one every run does. */
  readonly part?: Part
  readonly valueOf: (report: Report) => number | undefined
}

/** Ratios are divided by the bare loop of the same run, unless they say by what. */
export const LIMITS: readonly Limit[] = [
  {
    figure: 'ratio_bare: fresh big job, POST to completed',
    unit: 'ratio',
    is: 'most',
    limit: 1.0,
    aim: 0.75,
    valueOf: report => report.ratioBare,
  },
  {
    figure: 'the same with its CSV downloaded',
    unit: 'ratio',
    is: 'most',
    limit: 1.1,
    aim: 0.8,
    valueOf: report => report.ratioWithCsv,
  },
  {
    figure: 'the same job again, all cached',
    unit: 'ratio',
    is: 'most',
    limit: 0.7,
    aim: 0.5,
    valueOf: report => report.ratioCached,
  },
  {
    figure: 'preflight of a big job, POST to 202',
    unit: 'ratio',
    is: 'most',
    limit: 0.6,
    aim: 0.4,
    valueOf: report => report.ratioPreflight,
  },
  {
    figure: 'the sealed normalize hop alone',
    unit: 'ratio',
    is: 'most',
    limit: 0.6,
    aim: 0.5,
    part: 'peers',
    valueOf: report => report.peers?.sealed.ratio,
  },
  {
    figure: 'growth: wall of all rows / a tenth of them',
    unit: 'ratio',
    is: 'most',
    limit: 11,
    aim: 9,
    part: 'growth',
    valueOf: report => report.growth?.ratio,
  },
  {
    figure: '100 rows all cached, idle, p50',
    unit: 'ms',
    is: 'most',
    limit: 40,
    aim: 20,
    valueOf: report => report.cached100.p50Ms,
  },
  {
    figure: '100 rows all cached, idle, p95',
    unit: 'ms',
    is: 'most',
    limit: 80,
    valueOf: report => report.cached100.p95Ms,
  },
  {
    figure: 'the same beside ten big jobs, p95 / idle p95',
    unit: 'ratio',
    is: 'most',
    limit: 5,
    aim: 3,
    part: 'crowd',
    valueOf: report => report.crowd?.ratio,
  },
  {
    figure: '100 fresh rows, idle, p95',
    unit: 'ms',
    is: 'most',
    limit: 150,
    aim: 80,
    valueOf: report => report.fresh100.p95Ms,
  },
  {
    figure: 'peak memory of a service, ten big jobs',
    unit: 'MB',
    is: 'most',
    limit: 300,
    aim: 200,
    part: 'crowd',
    valueOf: report => report.crowd?.peakMb,
  },
  {
    figure: 'memory after a soak / after its first minute',
    unit: 'ratio',
    is: 'most',
    limit: 1.2,
    aim: 1.05,
    part: 'soak',
    valueOf: report => report.soak?.worst.ratio,
  },
  {
    figure: 'idle CPU of all services together',
    unit: '% of a core',
    is: 'most',
    limit: 3,
    aim: 1,
    valueOf: report => report.idleCpuPercent,
  },
  {
    figure: 'e-mail rows through email-domain, MX known',
    unit: 'rows/s',
    is: 'least',
    limit: 15_000,
    aim: 30_000,
    part: 'email',
    valueOf: report => report.email?.rowsPerSecond,
  },
  {
    figure: 'a job beside ten big ones of another organization / alone',
    unit: 'ratio',
    is: 'most',
    limit: 2.5,
    part: 'fairness',
    valueOf: report => report.fairness?.ratio,
  },
  {
    figure: 'shares of ten organizations with equal loads, index of Jain',
    unit: 'ratio',
    is: 'least',
    limit: 0.95,
    part: 'fairness',
    valueOf: report => report.fairness?.jain,
  },
  {
    figure: 'first 202 after a kill of the state Redis, the longest journal',
    unit: 'ms',
    is: 'most',
    limit: 5_000,
    part: 'recovery',
    valueOf: report => report.recovery?.killed.at(-1)?.firstMs,
  },
  {
    figure: 'the same, all its files deleted',
    unit: 'ms',
    is: 'most',
    limit: 30_000,
    part: 'recovery',
    valueOf: report => report.recovery?.emptied.firstMs,
  },
  {
    figure: 'the same, until the last tenant is let in',
    unit: 'ms',
    is: 'most',
    limit: 90_000,
    part: 'recovery',
    valueOf: report => report.recovery?.emptied.lastMs,
  },
  {
    figure: 'peak memory of ledger in a recovery',
    unit: 'MB',
    is: 'most',
    limit: 200,
    part: 'recovery',
    valueOf: report => report.recovery?.peakMb,
  },
  {
    figure: 'idle CPU of ledger with so many tenants',
    unit: '% of a core',
    is: 'most',
    limit: 1,
    part: 'recovery',
    valueOf: report => report.recovery?.idlePercent,
  },
]
