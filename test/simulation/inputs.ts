import { mixedPhones } from '../bench/jobs.ts'
import type { Chaos } from './chaos.ts'

/** Most stories are short, as many short ones find more than a few long ones; some are not. */
const LONG_STORY_EVERY = 8
/** Enough for the lane of big jobs. */
const MANY_ROWS = 1_001
/** A run with such jobs takes as long as twenty others, so only every nth has any. */
const BIG_JOBS_EVERY = 100

const isLong = (seed: number) => seed % LONG_STORY_EVERY === 0
const mostRowsOf = (seed: number) => isLong(seed) ? 60 : 16
const hasBigJobs = (seed: number) => seed % BIG_JOBS_EVERY === BIG_JOBS_EVERY / 2

/** How many jobs a scenario has. */
export const jobsIn = (seed: number, chaos: Chaos): number => 2 + chaos.below(isLong(seed) ? 4 : 2)

/**
 * Rows a chunk holds: few, as only jobs of several chunks can lose one of them, and many jobs are
 * to have some. At times as many as in the product.
 */
export function chunkRowsOf (seed: number, chaos: Chaos): number | undefined {
  if (hasBigJobs(seed)) return 200 + chaos.below(400)
  return chaos.happens(0.3) ? undefined : 1 + chaos.below(mostRowsOf(seed) / 2)
}

/** What one job is to check. */
export function inputsOf (seed: number, chaos: Chaos): readonly string[] {
  const isBig = hasBigJobs(seed) && chaos.happens(0.4)
  const rows = isBig ? MANY_ROWS + chaos.below(400) : 1 + chaos.below(mostRowsOf(seed))
  // Few serial numbers, so that jobs meet each other's numbers in the cache.
  return mixedPhones(rows, chaos.below(40))
}

/** The ids of inputs: some have none, and rows with the same input have different ones. */
export function idsOf (inputs: readonly string[]): readonly string[] {
  return inputs.map((_, row) => row % 3 === 1 ? '' : `id of row ${row}`)
}
