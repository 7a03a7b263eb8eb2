import { atARate } from '../at-a-rate.ts'
import { phones, serials, smallJobs, timeJob } from '../jobs.ts'
import type { Setting } from '../setting.ts'
import { spreadOf, type Spread } from '../spread.ts'
import { forgetPeaks, usages } from '../usage.ts'
import { startCrowdClient, type CrowdClient } from './crowd-client.ts'

export type CrowdFigures = {
  /** Big jobs at once, and rows of each. */
  readonly jobs: number
  readonly rowsEach: number
  /** From the first POST to the last end, of all waves. */
  readonly wallMs: number
  readonly rowsPerSecond: number
  /** All-cached jobs of 100 rows of another organization: before, and beside. */
  readonly idle: Spread
  readonly beside: Spread
  readonly samples: number
  /** The p95 beside divided by the p95 before. */
  readonly ratio: number
  readonly processes: readonly { readonly name: string, readonly peakMb: number }[]
  /** The largest peak of them. */
  readonly peakMb: number
}

const JOBS_AT_ONCE = 10
/** The crowd comes twice, as often as it takes to have some small jobs beside it. */
const WAVES = 2
const IDLE_JOBS = 40
const SMALL_EVERY_MS = 1_000

/** Ten big jobs of one organization at once, and a small one of another each second beside them. */
export async function measureCrowd (setting: Setting): Promise<CrowdFigures> {
  const { neighbour, rows, show } = setting
  show(`crowd: ${JOBS_AT_ONCE} jobs of ${rows} rows at once, ${WAVES} times, and small ones beside`)
  const hundred = phones(100)
  await timeJob(neighbour, hundred)
  const idle = await smallJobs(neighbour, () => hundred, IDLE_JOBS)
  const waves = Array.from({ length: WAVES }, () =>
    Array.from({ length: JOBS_AT_ONCE }, () => serials(rows)))
  const crowd = await startCrowdClient({ client: setting.address, rows, waves })
  try {
    return { idle, ...await measureBeside(setting, { crowd, hundred, idle }) }
  } finally {
    await crowd.end()
  }
}

type Beside = {
  readonly crowd: CrowdClient
  readonly hundred: readonly string[]
  readonly idle: Spread
}

async function measureBeside (
  { neighbour, services, rows }: Setting, { crowd, hundred, idle }: Beside
): Promise<Omit<CrowdFigures, 'idle'>> {
  forgetPeaks(services.list())
  const running = crowd.run()
  const times = await atARate(SMALL_EVERY_MS, {
    until: running, work: async () => (await timeJob(neighbour, hundred)).wallMs,
  })
  const wallMs = await running
  const processes = usages(services.list()).map(({ name, peakMb }) => ({ name, peakMb }))
  const beside = spreadOf(times)
  return {
    jobs: JOBS_AT_ONCE,
    rowsEach: rows,
    wallMs,
    rowsPerSecond: rows * JOBS_AT_ONCE * WAVES / wallMs * 1_000,
    beside,
    samples: times.length,
    ratio: beside.p95Ms / idle.p95Ms,
    processes,
    peakMb: Math.max(...processes.map(({ peakMb }) => peakMb)),
  }
}
