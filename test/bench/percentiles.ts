/** Median and 95th percentile of latencies in milliseconds. */
export type Percentiles = { readonly p50Ms: number, readonly p95Ms: number }

/**
 * Returns the quantile of a share from 0 to 1: a measured value, without interpolation. NaN when
 * there are no values.
 */
export function quantile (values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? NaN
}

/** The median; the upper one of two middle values. */
export function median (values: readonly number[]): number {
  return quantile(values, 0.5)
}

export function percentilesOf (timesMs: readonly number[]): Percentiles {
  return { p50Ms: quantile(timesMs, 0.5), p95Ms: quantile(timesMs, 0.95) }
}
