import { setTimeout as delay } from 'node:timers/promises'
import { atARate } from '../at-a-rate.ts'
import { phones, timeJob } from '../jobs.ts'
import { memoryGrowth, type MemoryGrowth, type MemorySample } from '../memory.ts'
import type { Setting } from '../setting.ts'
import { memoryMbOf } from '../usage.ts'

export type SoakFigures = {
  readonly minutes: number
  readonly jobs: number
  readonly rowsVerified: number
  readonly samples: readonly MemorySample[]
  readonly growth: readonly MemoryGrowth[]
  /** The service that grew most. */
  readonly worst: MemoryGrowth
}

const SAMPLE_EVERY_MS = 5_000
const SMALL_EVERY_MS = 1_000
const BIG_EVERY_MS = 5_000

/** The same load all the time, and the memory of every service meanwhile. */
export async function measureSoak (setting: Setting, minutes: number): Promise<SoakFigures> {
  const { rows, show } = setting
  const bigRows = Math.max(1, Math.round(rows / 10))
  show(`soak: ${minutes} minutes of a ${bigRows}-row job every ${BIG_EVERY_MS / 1_000} s and a ` +
    '100-row job each second')
  const endAt = performance.now() + minutes * 60_000
  const counted = { jobs: 0, rows: 0 }
  const watching = sampled(setting, endAt)
  const load = (size: number, everyMs: number) => atARate(everyMs, {
    until: watching,
    work: async () => {
      await timeJob(setting.client, phones(size), { pollEveryMs: 100 })
      counted.jobs += 1
      counted.rows += size
    },
  })
  const [samples] = await Promise.all([
    watching, load(bigRows, BIG_EVERY_MS), load(100, SMALL_EVERY_MS),
  ])
  const growth = memoryGrowth(samples)
  const worst = growth.toSorted((a, b) => b.ratio - a.ratio)[0]
  if (worst === undefined) throw new Error('no memory was sampled')
  return { minutes, jobs: counted.jobs, rowsVerified: counted.rows, samples, growth, worst }
}

async function sampled ({ services, show }: Setting, endAt: number): Promise<MemorySample[]> {
  const startedAt = performance.now()
  const samples: MemorySample[] = []
  let saidMinutes = 0
  while (performance.now() < endAt) {
    await delay(Math.min(SAMPLE_EVERY_MS, Math.max(0, endAt - performance.now())))
    const second = Math.round((performance.now() - startedAt) / 1_000)
    const mb = Object.fromEntries(services.list().flatMap(({ name, pid }) =>
      pid === undefined ? [] : [[name, memoryMbOf(pid)]]))
    samples.push({ second, mb })
    if (Math.floor(second / 60) <= saidMinutes) continue
    saidMinutes = Math.floor(second / 60)
    show(`soak: minute ${saidMinutes}, largest ${Math.max(...Object.values(mb)).toFixed(0)} MB`)
  }
  return samples
}
