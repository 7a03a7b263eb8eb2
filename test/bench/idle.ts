import { setTimeout as delay } from 'node:timers/promises'
import type { Process } from './context.ts'
import { usagesOf } from './usage.ts'

/** Lets earlier work end, including its commits and heartbeats. */
const SETTLE_MS = 3_000
const WINDOW_MS = 10_000

/** CPU of all these processes without any load, in percent of one core. */
export async function measureIdleCpu (processes: readonly Process[]): Promise<number> {
  await delay(SETTLE_MS)
  const startedAt = performance.now()
  const before = cpuSecondsOf(processes)
  await delay(WINDOW_MS)
  return (cpuSecondsOf(processes) - before) / (performance.now() - startedAt) * 100_000
}

function cpuSecondsOf (processes: readonly Process[]): number {
  return usagesOf(processes).reduce((sum, { cpuSeconds }) => sum + cpuSeconds, 0)
}
