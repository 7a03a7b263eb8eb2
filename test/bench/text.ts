import type { Unit } from './limits.ts'
import type { Spread } from './spread.ts'

/** A name and what there is to say of it. */
export type Line = readonly [name: string, value: string]

export const fixed = (value: number, digits = 0) => value.toFixed(digits)

export const spread = ({ p50Ms, p95Ms }: Spread) =>
  `p50 ${fixed(p50Ms)} ms, p95 ${fixed(p95Ms)} ms`

const DIGITS: Readonly<Record<Unit, number>> = {
  ratio: 2, ms: 0, MB: 0, '% of a core': 2, 'rows/s': 0,
}

/** A value in as many digits as it deserves. */
export function numberText (value: number, unit: Unit): string {
  const digits = DIGITS[unit]
  return value.toLocaleString('en', {
    minimumFractionDigits: digits, maximumFractionDigits: digits,
  })
}

/** A value with its unit, if it has one. */
export function valueText (value: number, unit: Unit): string {
  const text = numberText(value, unit)
  return unit === 'ratio' ? text : `${text} ${unit}`
}

/** Names in one column, values in the next. */
export function lines (all: readonly Line[]): string {
  return all.map(([name, value]) => `${name.padEnd(28)} ${value}`).join('\n')
}
