import { readFileSync, writeFileSync } from 'node:fs'
import type { Process } from './setting.ts'

/** Clock ticks a second of /proc, fixed on Linux. */
const TICKS = 100

export type Usage = { readonly cpuSeconds: number, readonly peakMb: number }
export type NamedUsage = Usage & { readonly name: string }

/** CPU time so far and peak resident memory of a process (Linux: from /proc). */
export function usageOf (pid: number): Usage {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const ticks = Number(fields[11]) + Number(fields[12])
  return { cpuSeconds: ticks / TICKS, peakMb: statusMb(pid, 'VmHWM') }
}

/** Resident memory of a process now, in MB. */
export function memoryMbOf (pid: number): number {
  return statusMb(pid, 'VmRSS')
}

/** Usage of all processes that run. */
export function usages (processes: readonly Process[]): readonly NamedUsage[] {
  return processes.flatMap(({ name, pid }) =>
    pid === undefined ? [] : [{ name, ...usageOf(pid) }])
}

/** Resets the peaks to what is resident now; without permission they stay. */
export function forgetPeaks (processes: readonly Process[]): void {
  for (const { pid } of processes) {
    if (pid === undefined) continue
    try {
      writeFileSync(`/proc/${pid}/clear_refs`, '5')
    } catch {
      // A peak that is too old is too high, so no figure gets better by it.
    }
  }
}

function statusMb (pid: number, field: 'VmHWM' | 'VmRSS'): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  return Number(new RegExp(`${field}:\\s+(\\d+) kB`).exec(status)?.[1] ?? '0') / 1_024
}
