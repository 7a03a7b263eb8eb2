import { setTimeout as delay } from 'node:timers/promises'
import { atConstantRate, freshPhones, timeJob } from '../jobs.ts'
import type { BenchContext } from '../run.ts'
import { memoryGrowth, type MemoryGrowth, type MemorySample, residentMbOf } from '../usage.ts'

export type SoakFigures = {
  readonly minutes: number
  readonly jobs: number
  readonly rowsVerified: number
  readonly samples: readonly MemorySample[]
  readonly growth: readonly MemoryGrowth[]
  /** The service with the largest growth. */
  readonly worst: MemoryGrowth
}

const SAMPLE_EVERY_MS = 5_000
const SMALL_JOB_EVERY_MS = 1_000
const LARGE_JOB_EVERY_MS = 5_000

/** Samples the memory of every service under a steady load. */
export async function measureSoak (context: BenchContext, minutes: number): Promise<SoakFigures> {
  const { rows, log } = context
  const largeRows = Math.max(1, Math.round(rows / 10))
  log(`soak: ${minutes} minutes with a ${largeRows}-row job every ` +
    `${LARGE_JOB_EVERY_MS / 1_000} s and a 100-row job each second`)
  const endAt = performance.now() + minutes * 60_000
  const count = { jobs: 0, rows: 0 }
  const sampling = sampleMemory(context, endAt)
  const load = (size: number, everyMs: number) => atConstantRate(everyMs, {
    until: sampling,
    work: async () => {
      await timeJob(context.client, freshPhones(size), { pollEveryMs: 100 })
      count.jobs += 1
      count.rows += size
    },
  })
  const [samples] = await Promise.all([
    sampling, load(largeRows, LARGE_JOB_EVERY_MS), load(100, SMALL_JOB_EVERY_MS),
  ])
  const growth = memoryGrowth(samples)
  const worst = growth.toSorted((a, b) => b.ratio - a.ratio)[0]
  if (worst === undefined) throw new Error('no memory was sampled')
  return { minutes, jobs: count.jobs, rowsVerified: count.rows, samples, growth, worst }
}

async function sampleMemory (
  { services, log }: BenchContext, endAt: number
): Promise<MemorySample[]> {
  const startedAt = performance.now()
  const samples: MemorySample[] = []
  let loggedMinutes = 0
  while (performance.now() < endAt) {
    await delay(Math.min(SAMPLE_EVERY_MS, Math.max(0, endAt - performance.now())))
    const second = Math.round((performance.now() - startedAt) / 1_000)
    const mb = Object.fromEntries(services.list().flatMap(({ name, pid }) =>
      pid === undefined ? [] : [[name, residentMbOf(pid)]]))
    samples.push({ second, mb })
    if (Math.floor(second / 60) <= loggedMinutes) continue
    loggedMinutes = Math.floor(second / 60)
    log(`soak: minute ${loggedMinutes}, largest ${Math.max(...Object.values(mb)).toFixed(0)} MB`)
  }
  return samples
}
