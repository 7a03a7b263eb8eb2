import type { Report } from '../../bench/run.ts'

const names = ['ingest-1', 'normalize-1', 'kafka-1'] as const

const SMALL_JOBS = {
  jobs: 12_000,
  jobsPerSecond: 200,
  post: { p50Ms: 60, p95Ms: 180 },
  refused: 0,
  cpuMsPerJob: 5.5,
  processes: [{ name: 'kafka', cpuMsPerJob: 3.5 }, { name: 'ingest-1', cpuMsPerJob: 2 }],
}

/** A report with only the core figures. */
export const CORE_REPORT: Report = {
  rows: 100_000,
  bareLoopMs: 1_000,
  firstWallMs: 2_000,
  preflightMs: 350,
  wallMs: 700,
  rowsPerSecond: 142_857,
  ratioBare: 0.7,
  ratioPreflight: 0.35,
  ratioCached: 0.84,
  ratioWithCsv: 0.9,
  resultsMbPerSecond: 80,
  cached100: { p50Ms: 18, p95Ms: 81 },
  fresh100: { p50Ms: 40, p95Ms: 75 },
  duringLargeJob: { p50Ms: 50, p95Ms: 90 },
  idleCpuPercent: 2,
  processes: names.map((name, index) => ({ name, cpuSeconds: 0.5 - index * 0.2, peakMb: 120 })),
}

/** The same with the scenarios of the plot, and one whose limit is a lower bound. */
export const FULL_REPORT: Report = {
  ...CORE_REPORT,
  growth: {
    steps: [
      { rows: 1_000, wallMs: 40 }, { rows: 10_000, wallMs: 120 }, { rows: 100_000, wallMs: 960 },
    ],
    ratio: 8,
  },
  email: { rows: 50_000, domains: 1_006, wallMs: 4_000, rowsPerSecond: 12_500 },
  verifications: {
    cached: { p50Ms: 22, p95Ms: 30 },
    fresh: { p50Ms: 33, p95Ms: 41 },
    cached100: { p50Ms: 28, p95Ms: 38 },
    backToBack: { p50Ms: 30, p95Ms: 60 },
  },
  provisional: { rows: 100_000, aloneMs: 700, readMs: 735, ratio: 1.05, lastRowMs: 900 },
  small: {
    residentMb: 1_100,
    proportionalMb: 700,
    oneFresh: { p50Ms: 25, p95Ms: 40 },
    oneCached: { p50Ms: 19, p95Ms: 30 },
    steady: { ...SMALL_JOBS, jobs: 1_500, jobsPerSecond: 50 },
    highest: { ...SMALL_JOBS, clients: 16 },
  },
  soak: {
    minutes: 10,
    jobs: 700,
    rowsVerified: 1_260_000,
    samples: [
      { second: 60, mb: { 'ingest-1': 100, 'settle-1': 90 } },
      { second: 600, mb: { 'ingest-1': 110, 'settle-1': 90 } },
    ],
    growth: [],
    worst: { name: 'ingest-1', firstMb: 100, lastMb: 110, ratio: 1.1 },
  },
  state: {
    jobs: 30_000, jobsPerSecond: 1_500, cpuMsPerJob: 0.35, corePercent: 53, clientPercent: 98,
  },
}
