import { phones, timeJob } from '../jobs.ts'
import type { Setting } from '../setting.ts'
import { median } from '../spread.ts'

export type GrowthStep = { readonly rows: number, readonly wallMs: number }

export type GrowthFigures = {
  readonly steps: readonly GrowthStep[]
  /** Wall of the largest job divided by that of a job with a tenth of its rows. */
  readonly ratio: number
}

const SHARES = [0.01, 0.03, 0.1, 0.3, 1]
const ROUNDS = 5

/** Rows of the jobs that are compared: 1 %, 3 %, 10 %, 30 % and all of the largest one. */
export function stepsOf (rows: number): readonly number[] {
  return SHARES.map(share => Math.max(1, Math.round(rows * share)))
}

/** Wall of the largest step divided by that of the step with a tenth of its rows. */
export function growthRatio (steps: readonly GrowthStep[]): number {
  const largest = steps.toSorted((a, b) => a.rows - b.rows).at(-1)
  if (largest === undefined) return NaN
  const tenth = steps.find(({ rows }) => rows === Math.max(1, Math.round(largest.rows / 10)))
  return largest.wallMs / (tenth?.wallMs ?? NaN)
}

/**
 * How long fresh jobs of each size take: the median of some rounds, each of which has all sizes, so
 * that a slow moment of the machine meets them all.
 */
export async function measureGrowth ({ client, rows, show }: Setting): Promise<GrowthFigures> {
  const sizes = stepsOf(rows)
  show(`growth: fresh jobs of ${sizes.join(', ')} rows, ${ROUNDS} of each`)
  const times = sizes.map((): number[] => [])
  for (let round = 0; round < ROUNDS; round++) {
    for (const [index, size] of sizes.entries()) {
      times[index]?.push((await timeJob(client, phones(size))).wallMs)
    }
  }
  const steps = sizes.map((size, index) => ({ rows: size, wallMs: median(times[index] ?? []) }))
  return { steps, ratio: growthRatio(steps) }
}
