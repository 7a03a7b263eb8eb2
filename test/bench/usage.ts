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

/**
 * Memory of processes in MB: the sum of their resident sizes, and the same with each page that
 * several of them share, such as the code of Node, counted once (proportional set size).
 */
export function memoryOf (
  processes: readonly Process[]
): { readonly residentMb: number, readonly proportionalMb: number } {
  const pids = processes.flatMap(({ pid }) => pid ?? [])
  const sum = (mbOf: (pid: number) => number) => pids.reduce((mb, pid) => mb + mbOf(pid), 0)
  return {
    residentMb: sum(residentMbOf),
    proportionalMb: sum(pid => megabytes(readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8'), 'Pss')),
  }
}

/** Usage of all processes that run. */
export function usagesOf (processes: readonly Process[]): readonly NamedUsage[] {
  return processes.flatMap(({ name, pid }) =>
    pid === undefined ? [] : [{ name, ...usageOf(pid) }])
}

/** CPU time of processes between two readings of them; the peaks are those of the second one. */
export function usageSince (
  before: readonly NamedUsage[], after: readonly NamedUsage[]
): readonly NamedUsage[] {
  return after.map((usage, index) =>
    ({ ...usage, cpuSeconds: usage.cpuSeconds - (before[index]?.cpuSeconds ?? 0) }))
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
  return megabytes(readFileSync(`/proc/${pid}/status`, 'utf8'), field)
}

function megabytes (text: string, field: string): number {
  return Number(new RegExp(`^${field}:\\s+(\\d+) kB`, 'm').exec(text)?.[1] ?? '0') / 1_024
}
