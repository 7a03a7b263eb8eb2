/** Times of several jobs in milliseconds: the one in the middle, and the one 95 % are below. */
export type Spread = { readonly p50Ms: number, readonly p95Ms: number }

/**
 * The value of which this share of all values is smaller, from 0 to 1: the nearest one that was
 * measured, never one in between. NaN when there are none.
 */
export function quantile (values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? NaN
}

/** The value in the middle; the upper one of two. */
export function median (values: readonly number[]): number {
  return quantile(values, 0.5)
}

export function spreadOf (timesMs: readonly number[]): Spread {
  return { p50Ms: quantile(timesMs, 0.5), p95Ms: quantile(timesMs, 0.95) }
}
