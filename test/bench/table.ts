import type { Judgement } from './judge.ts'
import type { Report } from './report.ts'
import { partLines } from './part-lines.ts'
import { fixed, lines, spread, valueText, type Line } from './text.ts'

/** The figures as people read them; CPU seconds are those of a fresh big job alone. */
export function table (report: Report): string {
  const every: readonly Line[] = [
    ['rows of the big job', fixed(report.rows)],
    ['bare loop, warm median', `${fixed(report.bareLoopMs)} ms`],
    ['the first job of all', `${fixed(report.firstWallMs)} ms to completed`],
    ['POST to 202', `${fixed(report.preflightMs)} ms, ${fixed(report.ratioPreflight, 2)} of it`],
    ['POST to completed', `${fixed(report.wallMs)} ms, ${fixed(report.rowsPerSecond)} rows/s`],
    ['ratio_bare', fixed(report.ratioBare, 2)],
    ['with the CSV downloaded', fixed(report.ratioWithCsv, 2)],
    ['the same again, all cached', fixed(report.ratioCached, 2)],
    ['results download', `${fixed(report.resultsMbPerSecond, 1)} MB/s`],
    ['100 rows, all cached', spread(report.cached100)],
    ['100 rows, all fresh', spread(report.fresh100)],
    ['100 rows beside a big job', spread(report.besideBig)],
    ['idle CPU of all services', `${fixed(report.idleCpuPercent, 2)} % of a core`],
    ...report.processes.map(({ name, cpuSeconds, peakMb }): Line =>
      [name, `${fixed(cpuSeconds, 2)} s CPU, peak ${fixed(peakMb)} MB`]),
  ]
  return lines([...every, ...partLines(report)])
}

const HEAD = ['figure', 'value', 'limit', 'aim', ''] as const
const WIDTHS = [46, 20, 11, 11, 0] as const
/** What limits were set for. */
const LIMITS_ROWS = 100_000

/** Value, limit and aim of every figure, and whether they hold; missed ones are marked. */
export function judgementTable (judgements: readonly Judgement[], rows: number): string {
  const row = (cells: readonly string[]) =>
    cells.map((cell, index) => cell.padEnd(WIDTHS[index] ?? 0)).join(' ').trimEnd()
  const missed = judgements.filter(({ verdict }) => verdict === 'missed').length
  return [
    row(HEAD),
    ...judgements.map(judgement => row(cellsOf(judgement))),
    missed === 0 ? 'No limit was missed.' : `!! ${missed} of ${judgements.length} limits missed`,
    ...rows === LIMITS_ROWS ? [] : [`Limits are for 100,000 rows; this was a try with ${rows}.`],
  ].join('\n')
}

function cellsOf (judgement: Judgement): readonly string[] {
  const { figure, unit, is, value, limit, aim } = judgement
  const bound = (goal: number) => `${is === 'most' ? '<=' : '>='} ${goal.toLocaleString('en')}`
  return [
    figure,
    value === undefined ? '-' : valueText(value, unit),
    bound(limit),
    aim === undefined ? '-' : bound(aim),
    verdictText(judgement),
  ]
}

function verdictText ({ verdict, missedByPercent, part }: Judgement): string {
  if (verdict === 'missed') return `!! missed by ${fixed(missedByPercent ?? NaN, 1)} %`
  return verdict === 'not measured' ? `not measured (--${part})` : verdict
}
