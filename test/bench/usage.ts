import { readFileSync, writeFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import type { Process } from './run.ts'
import { median } from './jobs.ts'

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

/** Resident memory in MB by service, with the seconds since the load started. */
export type MemorySample = {
  readonly second: number
  readonly mb: Readonly<Record<string, number>>
}

export type MemoryGrowth = {
  readonly name: string
  readonly firstMb: number
  readonly lastMb: number
  /** Last divided by first. */
  readonly ratio: number
}

/** A garbage collection moves a single sample, but hardly the median of half a minute. */
const WINDOW_SECONDS = 30
const FIRST_MINUTE_SECONDS = 60

/**
 * Compares the memory of each service at the end of a load with that after its first minute (after
 * a quarter of a load shorter than four minutes). Each is the median of half a minute.
 */
export function memoryGrowth (samples: readonly MemorySample[]): readonly MemoryGrowth[] {
  const endSecond = samples.at(-1)?.second ?? 0
  const startSecond = Math.min(FIRST_MINUTE_SECONDS, endSecond / 4)
  const windowSeconds = Math.min(WINDOW_SECONDS, startSecond)
  const windowFrom = (from: number) => samples
    .filter(({ second }) => second >= from && second <= from + windowSeconds)
  const first = windowFrom(startSecond)
  const last = windowFrom(endSecond - windowSeconds)
  return Object.keys(samples.at(-1)?.mb ?? {}).map(name => {
    const firstMb = medianMb(first, name)
    const lastMb = medianMb(last, name)
    return { name, firstMb, lastMb, ratio: lastMb / firstMb }
  })
}

function medianMb (samples: readonly MemorySample[], name: string): number {
  return median(samples.flatMap(({ mb }) => mb[name] ?? []))
}

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
