import { median } from './spread.ts'

/** Resident memory in MB by service, so many seconds after the load began. */
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

/** A collection of garbage moves a single sample, but hardly the middle one of half a minute. */
const WINDOW_SECONDS = 30
const FIRST_MINUTE_SECONDS = 60

/**
 * Memory of each service at the end of a load compared with that after its first minute (after a
 * quarter of it, if it lasts less than four), each the median of half a minute.
 */
export function memoryGrowth (samples: readonly MemorySample[]): readonly MemoryGrowth[] {
  const endSecond = samples.at(-1)?.second ?? 0
  const fromSecond = Math.min(FIRST_MINUTE_SECONDS, endSecond / 4)
  const windowSeconds = Math.min(WINDOW_SECONDS, fromSecond)
  const within = (from: number) => samples
    .filter(({ second }) => second >= from && second <= from + windowSeconds)
  const first = within(fromSecond)
  const last = within(endSecond - windowSeconds)
  return Object.keys(samples.at(-1)?.mb ?? {}).map(name => {
    const firstMb = middleOf(first, name)
    const lastMb = middleOf(last, name)
    return { name, firstMb, lastMb, ratio: lastMb / firstMb }
  })
}

function middleOf (samples: readonly MemorySample[], name: string): number {
  return median(samples.flatMap(({ mb }) => mb[name] ?? []))
}
