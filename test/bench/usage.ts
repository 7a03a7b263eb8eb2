import { readFileSync, writeFileSync } from 'node:fs'
import type { Process } from './context.ts'

/** Constant on Linux (USER_HZ). */
const CLOCK_TICKS_PER_SECOND = 100

export type Usage = { readonly cpuSeconds: number, readonly peakMb: number }
export type NamedUsage = Usage & { readonly name: string }

/** CPU time since the start and peak resident memory of a process (Linux: from /proc). */
export function usageOf (pid: number): Usage {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const ticks = Number(fields[11]) + Number(fields[12])
  return { cpuSeconds: ticks / CLOCK_TICKS_PER_SECOND, peakMb: statusMb(pid, 'VmHWM') }
}

/** Current resident memory of a process in MB. */
export function residentMbOf (pid: number): number {
  return statusMb(pid, 'VmRSS')
}

/** Usage of all processes that run. */
export function usagesOf (processes: readonly Process[]): readonly NamedUsage[] {
  return processes.flatMap(({ name, pid }) =>
    pid === undefined ? [] : [{ name, ...usageOf(pid) }])
}

/** Resets peak memory to current resident memory. Without permission it stays as it is. */
export function resetPeaks (processes: readonly Process[]): void {
  for (const { pid } of processes) {
    if (pid === undefined) continue
    try {
      writeFileSync(`/proc/${pid}/clear_refs`, '5')
    } catch {
      // An earlier peak can only be higher, so the figure never looks better than it is.
    }
  }
}

function statusMb (pid: number, field: 'VmHWM' | 'VmRSS'): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  return Number(new RegExp(`${field}:\\s+(\\d+) kB`).exec(status)?.[1] ?? '0') / 1_024
}
