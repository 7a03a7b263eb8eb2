import type { Client } from '../../services/client/client.ts'
import { mixedPhones } from './inputs.ts'
import { usageOf } from './usage.ts'

type Process = { readonly name: string, readonly pid: number | undefined }

export type Setting = {
  readonly client: Client
  readonly processes: readonly Process[]
  readonly rows: number
  readonly bareLoopMs: () => number
  readonly show: (line: string) => void
}

export type Spread = { readonly p50Ms: number, readonly p95Ms: number }

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
  readonly cached100: Spread
  readonly fresh100: Spread
  /** 100-row jobs while a big job runs. */
  readonly besideBig: Spread
  readonly processes: readonly { name: string, cpuSeconds: number, peakMb: number }[]
}

type Timed = { readonly preflightMs: number, readonly wallMs: number, readonly csvMs: number }

const SMALL_JOBS = 40
/** Big jobs before those that count, as the bare loop has warm passes too; and those that count. */
const WARM_UP_JOBS = 2
const MEASURED_JOBS = 3
/** Rows of different jobs start at serial numbers that no other job uses. */
let nextSerial = 0
const phones = (rows: number) => {
  nextSerial += rows
  return mixedPhones(rows, nextSerial - rows)
}

async function timeJob (
  client: Client, inputs: readonly string[], withCsv = false
): Promise<Timed> {
  const sentAt = performance.now()
  const { id } = await client.createJob({ service: 'phone-validation', inputs, countryCode: 'US' })
  const preflightMs = performance.now() - sentAt
  const job = await client.waitForEnd(id, { pollEveryMs: inputs.length > 1_000 ? 25 : 5 })
  const wallMs = performance.now() - sentAt
  if (job.status !== 'completed') throw new Error(`${id} is ${job.status}`)
  if (withCsv) await client.results(id)
  return { preflightMs, wallMs, csvMs: performance.now() - sentAt }
}

function spreadOf (timesMs: readonly number[]): Spread {
  const sorted = timesMs.toSorted((a, b) => a - b)
  const last = sorted.length - 1
  const at = (share: number) => sorted[Math.min(last, Math.floor(sorted.length * share))]
  return { p50Ms: at(0.5) ?? NaN, p95Ms: at(0.95) ?? NaN }
}

async function smallJobs (
  client: Client, inputsOf: () => readonly string[], count = SMALL_JOBS
): Promise<Spread> {
  const times: number[] = []
  for (let job = 0; job < count; job++) times.push((await timeJob(client, inputsOf())).wallMs)
  return spreadOf(times)
}

/** 100-row jobs, one after another, from the POST of a big job to its end. */
async function smallBesideBig (client: Client, rows: number): Promise<Spread> {
  const big = { ended: false }
  const end = timeJob(client, phones(rows)).finally(() => { big.ended = true })
  const times: number[] = []
  while (!big.ended) times.push((await timeJob(client, phones(100))).wallMs)
  await end
  return spreadOf(times)
}

function usages (processes: readonly Process[]) {
  return processes.flatMap(({ name, pid }) =>
    pid === undefined ? [] : [{ name, ...usageOf(pid) }])
}

/** Fresh big jobs, and the bare loop before and after them. */
async function bigJobs ({ client, rows, processes, bareLoopMs }: Setting) {
  const bareBeforeMs = bareLoopMs()
  const before = usages(processes)
  const jobs: { readonly inputs: readonly string[], readonly timed: Timed }[] = []
  for (let job = 0; job < MEASURED_JOBS; job++) {
    const inputs = phones(rows)
    jobs.push({ inputs, timed: await timeJob(client, inputs, true) })
  }
  const after = usages(processes)
  const bareMs = (bareBeforeMs + bareLoopMs()) / 2
  const inOrder = jobs.toSorted((a, b) => a.timed.wallMs - b.timed.wallMs)
  const { inputs = [], timed } = inOrder[Math.floor(inOrder.length / 2)] ?? {}
  if (timed === undefined) throw new Error('no big job was measured')
  const cpuSeconds = after.map((usage, index) =>
    (usage.cpuSeconds - (before[index]?.cpuSeconds ?? 0)) / MEASURED_JOBS)
  return { inputs, timed, bareMs, cpuSeconds }
}

/** Takes every figure on warm services; of the fresh big jobs the one in the middle counts. */
export async function measure (setting: Setting): Promise<Figures> {
  const { client, processes, rows, show } = setting
  show(`warming up with ${WARM_UP_JOBS} jobs of ${rows} rows`)
  const first = await timeJob(client, phones(rows), true)
  for (let job = 1; job < WARM_UP_JOBS; job++) await timeJob(client, phones(rows), true)
  show(`the bare loop, and ${MEASURED_JOBS} jobs of ${rows} rows, all fresh`)
  const { inputs, timed: fresh, bareMs, cpuSeconds } = await bigJobs(setting)
  show('the same again, all cached')
  const cached = await timeJob(client, inputs)
  show(`${SMALL_JOBS} jobs of 100 rows, fresh, cached, and beside a big job`)
  const fresh100 = await smallJobs(client, () => phones(100))
  const hundred = phones(100)
  await timeJob(client, hundred)
  return {
    rows,
    bareLoopMs: bareMs,
    firstWallMs: first.wallMs,
    preflightMs: fresh.preflightMs,
    wallMs: fresh.wallMs,
    rowsPerSecond: rows / fresh.wallMs * 1_000,
    ratioBare: fresh.wallMs / bareMs,
    ratioPreflight: fresh.preflightMs / bareMs,
    ratioCached: cached.wallMs / bareMs,
    ratioWithCsv: fresh.csvMs / bareMs,
    cached100: await smallJobs(client, () => hundred),
    fresh100,
    besideBig: await smallBesideBig(client, rows),
    processes: usages(processes).map(({ name, peakMb }, index) =>
      ({ name, cpuSeconds: cpuSeconds[index] ?? NaN, peakMb })),
  }
}
