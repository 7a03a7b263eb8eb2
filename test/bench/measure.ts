import { downloadRate, phones, smallJobs, timeJob, type Timed } from './jobs.ts'
import { collectGarbage } from './garbage.ts'
import { measureIdle } from './idle.ts'
import type { Setting } from './setting.ts'
import { median, spreadOf, type Spread } from './spread.ts'
import { usages, type NamedUsage } from './usage.ts'

export type Figures = {
  readonly rows: number
  readonly bareLoopMs: number
  /** POST sent to `completed` of the very first job after the start. */
  readonly firstWallMs: number
  readonly preflightMs: number
  readonly wallMs: number
  readonly rowsPerSecond: number
  /** POST sent to `completed`, divided by the bare loop. */
  readonly ratioBare: number
  readonly ratioPreflight: number
  readonly ratioCached: number
  readonly ratioWithCsv: number
  /** Megabytes a second of the result file. */
  readonly resultsMbPerSecond: number
  readonly cached100: Spread
  readonly fresh100: Spread
  /** 100-row jobs while a big job runs. */
  readonly besideBig: Spread
  /** All services together with nothing to do, in percent of one core. */
  readonly idleCpuPercent: number
  readonly processes: readonly NamedUsage[]
}

const SMALL_JOBS = 40
/** Big jobs before those that count, as the bare loop has warm passes too; and those that count. */
const WARM_UP_JOBS = 10
const MEASURED_JOBS = 5

/** 100-row jobs, one after another, from the POST of a big job to its end. */
async function smallBesideBig ({ client, rows }: Setting): Promise<Spread> {
  const big = { ended: false }
  const end = timeJob(client, phones(rows)).finally(() => { big.ended = true })
  const times: number[] = []
  while (!big.ended) times.push((await timeJob(client, phones(100))).wallMs)
  await end
  return spreadOf(times)
}

const processesOf = ({ services, infrastructure }: Setting) =>
  [...services.list(), ...infrastructure]

/** Fresh big jobs, each once more all cached, and the bare loop before and after them. */
async function bigJobs (setting: Setting) {
  const { client, rows, bareLoopMs } = setting
  const bareBeforeMs = bareLoopMs()
  const jobs: Timed[] = []
  const cached: number[] = []
  const used: NamedUsage[][] = []
  for (let job = 0; job < MEASURED_JOBS; job++) {
    const inputs = phones(rows)
    collectGarbage()
    const before = usages(processesOf(setting))
    jobs.push(await timeJob(client, inputs, { withCsv: true }))
    used.push(since(before, usages(processesOf(setting))))
    collectGarbage()
    cached.push((await timeJob(client, inputs)).wallMs)
  }
  const bareMs = (bareBeforeMs + bareLoopMs()) / 2
  const inOrder = jobs.toSorted((a, b) => a.wallMs - b.wallMs)
  const timed = inOrder[Math.floor(inOrder.length / 2)]
  if (timed === undefined) throw new Error('no big job was measured')
  const cpuSeconds = processesOf(setting).map((_, index) =>
    median(used.map(one => one[index]?.cpuSeconds ?? NaN)))
  const mbPerSecond = median(jobs.map(downloadRate))
  return { timed, cachedMs: median(cached), bareMs, cpuSeconds, mbPerSecond }
}

/** What processes used between two looks. */
function since (before: readonly NamedUsage[], after: readonly NamedUsage[]): NamedUsage[] {
  return after.map((usage, index) =>
    ({ ...usage, cpuSeconds: usage.cpuSeconds - (before[index]?.cpuSeconds ?? 0) }))
}

async function warmUp ({ client, rows, show }: Setting): Promise<Timed> {
  show(`warming up with ${WARM_UP_JOBS} jobs of ${rows} rows`)
  const first = await timeJob(client, phones(rows), { withCsv: true })
  for (let job = 1; job < WARM_UP_JOBS; job++) {
    await timeJob(client, phones(rows), { withCsv: true })
  }
  return first
}

/** Takes every figure on warm services; of the fresh big jobs the one in the middle counts. */
export async function measure (setting: Setting): Promise<Figures> {
  const { client, rows, show } = setting
  const first = await warmUp(setting)
  show(`the bare loop, and ${MEASURED_JOBS} jobs of ${rows} rows, each fresh and then all cached`)
  const { timed: fresh, cachedMs, bareMs, cpuSeconds, mbPerSecond } = await bigJobs(setting)
  show(`${SMALL_JOBS} jobs of 100 rows, fresh, cached, and beside a big job`)
  const fresh100 = await smallJobs(client, () => phones(100), SMALL_JOBS)
  const hundred = phones(100)
  await timeJob(client, hundred)
  const cached100 = await smallJobs(client, () => hundred, SMALL_JOBS)
  const besideBig = await smallBesideBig(setting)
  const peaks = usages(processesOf(setting))
  show('nothing at all')
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
    besideBig,
    idleCpuPercent: await measureIdle(setting.services.list()),
    processes: peaks.map(({ name, peakMb }, index) =>
      ({ name, cpuSeconds: cpuSeconds[index] ?? NaN, peakMb })),
  }
}
