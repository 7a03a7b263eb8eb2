import { setTimeout as delay } from 'node:timers/promises'
import type { Process } from './setting.ts'
import { usages } from './usage.ts'

/** What was under way before is over by then, its commits and heartbeats included. */
const SETTLE_MS = 3_000
const WATCHED_MS = 10_000

/** CPU of all these processes together while nothing is asked of them, in percent of one core. */
export async function measureIdle (processes: readonly Process[]): Promise<number> {
  await delay(SETTLE_MS)
  const startedAt = performance.now()
  const before = cpuSecondsOf(processes)
  await delay(WATCHED_MS)
  return (cpuSecondsOf(processes) - before) / (performance.now() - startedAt) * 100_000
}

function cpuSecondsOf (processes: readonly Process[]): number {
  return usages(processes).reduce((sum, { cpuSeconds }) => sum + cpuSeconds, 0)
}
