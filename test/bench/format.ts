import type { Unit } from './limits.ts'
import type { Percentiles } from './percentiles.ts'

/** A figure and its formatted value. */
export type Line = readonly [figure: string, value: string]

export const fixed = (value: number, digits = 0) => value.toFixed(digits)

export const formatPercentiles = ({ p50Ms, p95Ms }: Percentiles) =>
  `p50 ${fixed(p50Ms)} ms, p95 ${fixed(p95Ms)} ms`

const DIGITS: Readonly<Record<Unit, number>> = {
  ratio: 2, ms: 0, 'CPU ms': 2, MB: 0, bytes: 0, '% of a core': 2, 'rows/s': 0, 'jobs/s': 0,
}

/** Formats a value with the precision of its unit. */
export function formatNumber (value: number, unit: Unit): string {
  const digits = DIGITS[unit]
  return value.toLocaleString('en', {
    minimumFractionDigits: digits, maximumFractionDigits: digits,
  })
}

/** Formats a value with its unit; a ratio has none. */
export function formatValue (value: number, unit: Unit): string {
  const text = formatNumber(value, unit)
  return unit === 'ratio' ? text : `${text} ${unit}`
}

/**
 * Formats a time as a multiple of the bare loop, and a rate as what happens while it runs once, so
 * that machines compare; empty for other units.
 */
export function formatRelative (value: number, unit: Unit, bareLoopMs: number): string {
  if (unit === 'ms' || unit === 'CPU ms') return `${fixed(value / bareLoopMs, 4)} R`
  return unit === 'rows/s' || unit === 'jobs/s' ? `${fixed(value * bareLoopMs / 1_000)} in R` : ''
}

/** Formats figures and values as two columns. */
export function formatLines (lines: readonly Line[]): string {
  return lines.map(([figure, value]) => `${figure.padEnd(28)} ${value}`).join('\n')
}
