import type { BenchContext } from '../run.ts'
import { freshPhones, timeJob, median } from '../jobs.ts'

type GrowthStep = { readonly rows: number, readonly wallMs: number }

export type GrowthFigures = {
  readonly steps: readonly GrowthStep[]
  /** Wall time of the largest job divided by that of a job with a tenth of its rows. */
  readonly ratio: number
}

const SHARES = [0.01, 0.03, 0.1, 0.3, 1]
const ROUNDS = 5

/** Job sizes of 1 %, 3 %, 10 %, 30 % and 100 % of the rows. */
function stepsOf (rows: number): readonly number[] {
  return SHARES.map(share => Math.max(1, Math.round(rows * share)))
}

/** Wall time of the largest step divided by that of the step with a tenth of its rows. */
function growthRatio (steps: readonly GrowthStep[]): number {
  const largest = steps.toSorted((a, b) => a.rows - b.rows).at(-1)
  if (largest === undefined) return NaN
  const tenth = steps.find(({ rows }) => rows === Math.max(1, Math.round(largest.rows / 10)))
  return largest.wallMs / (tenth?.wallMs ?? NaN)
}

/**
 * Measures the wall time of fresh jobs by size, as the median of several rounds. Each round
 * includes all sizes, so that a slow period of the machine affects all of them.
 */
export async function measureGrowth ({ client, rows, log }: BenchContext): Promise<GrowthFigures> {
  const sizes = stepsOf(rows)
  log(`growth: ${ROUNDS} rounds of fresh jobs of ${sizes.join(', ')} rows`)
  const times = sizes.map((): number[] => [])
  for (let round = 0; round < ROUNDS; round++) {
    for (const [index, size] of sizes.entries()) {
      times[index]?.push((await timeJob(client, freshPhones(size))).wallMs)
    }
  }
  const steps = sizes.map((size, index) => ({ rows: size, wallMs: median(times[index] ?? []) }))
  return { steps, ratio: growthRatio(steps) }
}
