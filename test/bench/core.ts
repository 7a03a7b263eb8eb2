import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { BenchContext } from './run.ts'
import { measureIdleCpu, usageSince, usagesOf, type NamedUsage } from './usage.ts'
import {
  downloadRate, freshPhones, timeJob, timeSequentialJobs, type JobTimes, median, percentilesOf,
  type Percentiles,
} from './jobs.ts'

/** The figures of every run. */
export type CoreFigures = {
  readonly rows: number
  readonly bareLoopMs: number
  /** POST to `completed` of the first job after the start. */
  readonly firstWallMs: number
  readonly preflightMs: number
  readonly wallMs: number
  readonly rowsPerSecond: number
  /** POST to `completed`, divided by the bare loop. */
  readonly ratioBare: number
  readonly ratioPreflight: number
  readonly ratioCached: number
  readonly ratioWithCsv: number
  /** Throughput of the download of the result file. */
  readonly resultsMbPerSecond: number
  readonly cached100: Percentiles
  readonly fresh100: Percentiles
  /** 100-row jobs while a large job runs. */
  readonly duringLargeJob: Percentiles
  /** All services without any load, in percent of one core. */
  readonly idleCpuPercent: number
  readonly processes: readonly NamedUsage[]
}

const SMALL_JOBS = 40
/** The bare loop has warm-up passes too. */
const WARM_UP_JOBS = 10
const MEASURED_JOBS = 5

setFlagsFromString('--expose-gc')
/**
 * Collects the garbage of the previous job, such as its inputs, before the next one is measured.
 * Otherwise this process collects it during the measurement, on cores that the services need; the
 * client of a customer runs on another machine.
 */
export const collectGarbage = runInNewContext('gc') as () => void

/** Runs 100-row jobs, one after another, from the POST of a large job to its end. */
async function measureDuringLargeJob ({ client, rows }: BenchContext): Promise<Percentiles> {
  const large = { ended: false }
  const end = timeJob(client, freshPhones(rows)).finally(() => { large.ended = true })
  const times: number[] = []
  while (!large.ended) times.push((await timeJob(client, freshPhones(100))).wallMs)
  await end
  return percentilesOf(times)
}

const processesOf = ({ services, infrastructure }: BenchContext) =>
  [...services.list(), ...infrastructure]

/** Runs fresh large jobs, each followed by an all-cached one, between two runs of the bare loop. */
async function measureLargeJobs (context: BenchContext) {
  const { client, rows, bareLoopMs } = context
  const bareBeforeMs = bareLoopMs()
  const jobs: JobTimes[] = []
  const cached: number[] = []
  const used: (readonly NamedUsage[])[] = []
  for (let job = 0; job < MEASURED_JOBS; job++) {
    const inputs = freshPhones(rows)
    collectGarbage()
    const before = usagesOf(processesOf(context))
    jobs.push(await timeJob(client, inputs, { withCsv: true }))
    used.push(usageSince(before, usagesOf(processesOf(context))))
    collectGarbage()
    cached.push((await timeJob(client, inputs)).wallMs)
  }
  const bareMs = (bareBeforeMs + bareLoopMs()) / 2
  const sorted = jobs.toSorted((a, b) => a.wallMs - b.wallMs)
  const fresh = sorted[Math.floor(sorted.length / 2)]
  if (fresh === undefined) throw new Error('no large job was measured')
  const cpuSeconds = processesOf(context).map((_, index) =>
    median(used.map(usages => usages[index]?.cpuSeconds ?? NaN)))
  const mbPerSecond = median(jobs.map(downloadRate))
  return { fresh, cachedMs: median(cached), bareMs, cpuSeconds, mbPerSecond }
}

/** Returns the times of the first job. */
async function warmUp ({ client, rows, log }: BenchContext): Promise<JobTimes> {
  log(`warm-up: ${WARM_UP_JOBS} jobs of ${rows} rows`)
  const first = await timeJob(client, freshPhones(rows), { withCsv: true })
  for (let job = 1; job < WARM_UP_JOBS; job++) {
    await timeJob(client, freshPhones(rows), { withCsv: true })
  }
  return first
}

/** Measures the core figures after a warm-up; of the fresh large jobs, reports the median one. */
export async function measureCore (context: BenchContext): Promise<CoreFigures> {
  const { client, rows, log } = context
  const first = await warmUp(context)
  log(`bare loop, and ${MEASURED_JOBS} jobs of ${rows} rows, each fresh and then all cached`)
  const { fresh, cachedMs, bareMs, cpuSeconds, mbPerSecond } = await measureLargeJobs(context)
  log(`${SMALL_JOBS} jobs of 100 rows, fresh, cached, and during a large job`)
  const fresh100 = await timeSequentialJobs(client, () => freshPhones(100), SMALL_JOBS)
  const hundred = freshPhones(100)
  await timeJob(client, hundred)
  const cached100 = await timeSequentialJobs(client, () => hundred, SMALL_JOBS)
  const duringLargeJob = await measureDuringLargeJob(context)
  const peaks = usagesOf(processesOf(context))
  log('idle CPU')
  return {
    rows,
    bareLoopMs: bareMs,
    firstWallMs: first.wallMs,
    preflightMs: fresh.preflightMs,
    wallMs: fresh.wallMs,
    rowsPerSecond: rows / fresh.wallMs * 1_000,
    ratioBare: fresh.wallMs / bareMs,
    ratioPreflight: fresh.preflightMs / bareMs,
    ratioCached: cachedMs / bareMs,
    ratioWithCsv: fresh.csvMs / bareMs,
    resultsMbPerSecond: mbPerSecond,
    cached100,
    fresh100,
    duringLargeJob,
    idleCpuPercent: await measureIdleCpu(context.services.list()),
    processes: peaks.map(({ name, peakMb }, index) =>
      ({ name, cpuSeconds: cpuSeconds[index] ?? NaN, peakMb })),
  }
}
