import { readFileSync } from 'node:fs'

/** Clock ticks a second of /proc, fixed on Linux. */
const TICKS = 100

export type Usage = { readonly cpuSeconds: number, readonly peakMb: number }

/** CPU time so far and peak resident memory of a process (Linux: from /proc). */
export function usageOf (pid: number): Usage {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const ticks = Number(fields[11]) + Number(fields[12])
  const peak = /VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? '0'
  return { cpuSeconds: ticks / TICKS, peakMb: Number(peak) / 1_024 }
}
