import type { LimitCheck, Unit } from './limits.ts'
import { percentilesOf } from './jobs.ts'
import type { Report } from './run.ts'

/**
 * Formats all figures, those of a scenario with its name before them. CPU seconds are those of one
 * fresh large job.
 */
export function reportTable (report: Report): string {
  return figureLines('', report)
    .map(([figure, value]) => `${figure.padEnd(46)} ${value}`).join('\n')
}

/** A figure for each number: its name is the path to it, and that of a list its percentiles. */
function figureLines (path: string, value: unknown): readonly Line[] {
  if (typeof value === 'number') {
    return [[path, value.toLocaleString('en', { maximumFractionDigits: value < 10 ? 3 : 1 })]]
  }
  if (typeof value !== 'object' || value === null) return []
  if (Array.isArray(value) && typeof value[0] === 'number') {
    return figureLines(path, percentilesOf(value as readonly number[]))
  }
  const titleOf = (name: string, item: unknown) =>
    (Array.isArray(value) ? nameOf(item) : undefined) ?? name
  return Object.entries(value)
    // The course of memory over time, which the plot has.
    .filter(([name, figures]) => !(name === 'samples' && Array.isArray(figures)))
    .flatMap(([name, figures]) =>
      figureLines(`${path} ${titleOf(name, figures)}`.trim(), figures))
}

/** What an item of a list of figures is about: a process, an owner of mail servers. */
function nameOf (item: unknown): string | undefined {
  if (typeof item !== 'object' || item === null) return undefined
  return Object.values(item).find(value => typeof value === 'string')
}

const HEADERS = ['figure', 'value', 'to R', 'limit', 'target', ''] as const
const WIDTHS = [46, 20, 13, 11, 11, 0] as const
/** The size of a large job that the limits apply to. */
const LIMITS_ROWS = 100_000

/**
 * Formats value, limit, target and status of every figure; missed limits are marked. Times and
 * rates are also set in relation to R, the bare loop over the rows that limits apply to.
 */
export function limitTable (
  checks: readonly LimitCheck[], { rows, bareLoopMs }: Pick<Report, 'rows' | 'bareLoopMs'>
): string {
  const row = (cells: readonly string[]) =>
    cells.map((cell, index) => cell.padEnd(WIDTHS[index] ?? 0)).join(' ').trimEnd()
  const missed = checks.filter(({ status }) => status === 'limit missed').length
  const isComparable = rows === LIMITS_ROWS
  return [
    row(HEADERS),
    ...checks.map(check => row(cellsOf(check, isComparable ? bareLoopMs : undefined))),
    missed === 0 ? 'No limit was missed.' : `!! ${missed} of ${checks.length} limits missed`,
    ...isComparable
      ? []
      : [`Limits apply to 100,000 rows; this was a quick run with ${rows}.`],
  ].join('\n')
}

function cellsOf (check: LimitCheck, bareLoopMs: number | undefined): readonly string[] {
  const { figure, unit, bound, value, limit, target } = check
  const goalText = (goal: number) =>
    `${bound === 'upper' ? '<=' : '>='} ${goal.toLocaleString('en')}`
  return [
    figure,
    value === undefined ? '-' : formatValue(value, unit),
    value === undefined || bareLoopMs === undefined ? '' : formatRelative(value, unit, bareLoopMs),
    goalText(limit),
    target === undefined ? '-' : goalText(target),
    statusText(check),
  ]
}

function statusText ({ status, missedByPercent, scenario }: LimitCheck): string {
  if (status === 'limit missed') return `!! missed by ${fixed(missedByPercent ?? NaN, 1)} %`
  return status === 'not measured' ? `not measured (--${scenario})` : status
}

/** A figure and its formatted value. */
type Line = readonly [figure: string, value: string]

const fixed = (value: number, digits = 0) => value.toFixed(digits)

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
function formatRelative (value: number, unit: Unit, bareLoopMs: number): string {
  if (unit === 'ms' || unit === 'CPU ms') return `${fixed(value / bareLoopMs, 4)} R`
  return unit === 'rows/s' || unit === 'jobs/s' ? `${fixed(value * bareLoopMs / 1_000)} in R` : ''
}
