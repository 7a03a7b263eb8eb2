import type { LimitCheck } from './check-limits.ts'
import {
  fixed, formatLines, formatPercentiles, formatRelative, formatValue, type Line,
} from './format.ts'
import type { Report } from './report.ts'
import { scenarioLines } from './scenario-lines.ts'

/** Formats all figures. CPU seconds are those of one fresh large job. */
export function reportTable (report: Report): string {
  const core: readonly Line[] = [
    ['rows of a large job', fixed(report.rows)],
    ['bare loop, warm median', `${fixed(report.bareLoopMs)} ms`],
    ['first job after the start', `${fixed(report.firstWallMs)} ms to completed`],
    ['POST to 202', `${fixed(report.preflightMs)} ms, ratio ${fixed(report.ratioPreflight, 2)}`],
    ['POST to completed', `${fixed(report.wallMs)} ms, ${fixed(report.rowsPerSecond)} rows/s`],
    ['ratio_bare', fixed(report.ratioBare, 2)],
    ['with the CSV downloaded', fixed(report.ratioWithCsv, 2)],
    ['the same job, all cached', fixed(report.ratioCached, 2)],
    ['results download', `${fixed(report.resultsMbPerSecond, 1)} MB/s`],
    ['100 rows, all cached', formatPercentiles(report.cached100)],
    ['100 rows, all fresh', formatPercentiles(report.fresh100)],
    ['100 rows during a large job', formatPercentiles(report.duringLargeJob)],
    ['idle CPU of all services', `${fixed(report.idleCpuPercent, 2)} % of a core`],
    ...report.processes.map(({ name, cpuSeconds, peakMb }): Line =>
      [name, `${fixed(cpuSeconds, 2)} s CPU, peak ${fixed(peakMb)} MB`]),
  ]
  return formatLines([...core, ...scenarioLines(report)])
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
