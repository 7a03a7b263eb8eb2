import { median } from './percentiles.ts'

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
