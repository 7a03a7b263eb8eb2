import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import {
  atConstantRate, freshPhones, reserveSerials, timeJob, timeSequentialJobs, percentilesOf,
  type Percentiles,
} from '../jobs.ts'
import type { ApiAccess, BenchContext } from '../run.ts'
import { resetPeaks, usagesOf } from '../usage.ts'

/** What the worker thread of the crowd sends. */
export type CrowdPlan = {
  readonly access: ApiAccess
  readonly rows: number
  /** The first serial number of each job, by wave. */
  readonly waves: readonly (readonly number[])[]
}

type Crowd = {
  /** Sends all waves, one after another; resolves with their wall time. */
  readonly run: () => Promise<number>
  readonly stop: () => Promise<void>
}

const CONCURRENT_JOBS = 10
/** One wave is too short for enough samples of small jobs. */
const WAVES = 2
const IDLE_JOBS = 40
const SMALL_JOB_EVERY_MS = 1_000

/** Runs waves of concurrent large jobs, and each second a small job of another organization. */
export async function measureCrowd (context: BenchContext) {
  const { access, otherClient, rows, log } = context
  log(`crowd: ${WAVES} waves of ${CONCURRENT_JOBS} concurrent jobs of ${rows} rows, with small ` +
    'jobs of another organization')
  const hundred = freshPhones(100)
  await timeJob(otherClient, hundred)
  const idle = await timeSequentialJobs(otherClient, () => hundred, IDLE_JOBS)
  const waves = Array.from({ length: WAVES }, () =>
    Array.from({ length: CONCURRENT_JOBS }, () => reserveSerials(rows)))
  const crowd = await startCrowd({ access, rows, waves })
  try {
    /** `idle`: all-cached 100-row jobs of another organization before the crowd. */
    return { idle, ...await measureUnderLoad(context, { crowd, hundred, idle }) }
  } finally {
    await crowd.stop()
  }
}

/**
 * Starts a client on a worker thread. It takes half a second to serialize ten bodies of 100,000
 * rows, and the client of another organization would not wait for that.
 */
async function startCrowd (plan: CrowdPlan): Promise<Crowd> {
  const worker = new Worker(new URL('./crowd-worker.ts', import.meta.url), { workerData: plan })
  // Rejects with an error of the worker.
  await once(worker, 'message')
  const run = async () => {
    const ended = once(worker, 'message')
    worker.postMessage('start')
    const [wallMs] = await ended as [number]
    return wallMs
  }
  return { run, stop: async () => { await worker.terminate() } }
}

type Load = {
  readonly crowd: Crowd
  readonly hundred: readonly string[]
  readonly idle: Percentiles
}

async function measureUnderLoad (
  { otherClient, services, rows }: BenchContext, { crowd, hundred, idle }: Load
) {
  resetPeaks(services.list())
  const running = crowd.run()
  const times = await atConstantRate(SMALL_JOB_EVERY_MS, {
    until: running, work: async () => (await timeJob(otherClient, hundred)).wallMs,
  })
  const wallMs = await running
  const processes = usagesOf(services.list()).map(({ name, peakMb }) => ({ name, peakMb }))
  const underLoad = percentilesOf(times)
  return {
    /** Concurrent large jobs, and rows of each. */
    jobs: CONCURRENT_JOBS,
    rowsEach: rows,
    /** From the first POST to the end of the last job of all waves. */
    wallMs,
    rowsPerSecond: rows * CONCURRENT_JOBS * WAVES / wallMs * 1_000,
    /** The same small jobs during it, and their number. */
    underLoad,
    samples: times.length,
    ratio: underLoad.p95Ms / idle.p95Ms,
    processes,
    /** The highest peak of these processes. */
    peakMb: Math.max(...processes.map(({ peakMb }) => peakMb)),
  }
}
