import { setTimeout as delay } from 'node:timers/promises'
import type { Process } from './context.ts'
import { usagesOf } from './usage.ts'

/** Lets earlier work end, including its commits and heartbeats. */
const SETTLE_MS = 3_000
const WINDOW_MS = 10_000

/** CPU of all these processes without any load, in percent of one core. */
export async function measureIdleCpu (processes: readonly Process[]): Promise<number> {
  const [percent = NaN] = await idlePercentOf([processes])
  return percent
}

/** CPU of each of these groups of processes without any load, in percent of one core. */
export async function idlePercentOf (
  groups: readonly (readonly Process[])[]
): Promise<readonly number[]> {
  await delay(SETTLE_MS)
  const startedAt = performance.now()
  const before = groups.map(cpuSecondsOf)
  await delay(WINDOW_MS)
  const seconds = (performance.now() - startedAt) / 1_000
  return groups.map((processes, index) =>
    (cpuSecondsOf(processes) - (before[index] ?? 0)) / seconds * 100)
}

function cpuSecondsOf (processes: readonly Process[]): number {
  return usagesOf(processes).reduce((sum, { cpuSeconds }) => sum + cpuSeconds, 0)
}
