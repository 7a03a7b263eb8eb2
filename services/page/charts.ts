import type { RowStatus } from '../../schemas/api/verdicts.ts'
import type { UsageBody, UsageGroup } from '../../schemas/api/usage.ts'
import { count, html, type Html, share } from './html.ts'

/** A part of a whole of rows; the tone names its color. */
export type Segment = { readonly name: string, readonly rows: number, readonly tone: string }

/** The verdicts in the order and the colors of all charts and tables. */
export const VERDICTS: Readonly<Record<RowStatus, readonly [name: string, tone: string]>> = {
  valid: ['Valid', 'one'],
  risky: ['Risky', 'three'],
  invalid: ['Invalid', 'four'],
  unknown: ['Unknown', 'six'],
}

const WIDTH = 1_000
const HEIGHT = 28
/** The minimum width of a segment, so that every segment is visible. */
const MIN_WIDTH = 4

/** The parts of a whole as one bar, drawn by the server: it changes while a job runs. */
export function shareBar (
  label: string, segments: readonly Segment[], totalRows: number
): Html {
  const widths = scaleToBar(segments.map(({ rows }) => rows))
  const shares = segments.filter(({ rows }) => rows > 0)
    .map(({ name, rows }) => `${name} ${share(rows, totalRows)}`)
  let x = 0
  const rects = segments.map(({ name, rows, tone }, index) => {
    const width = widths[index] ?? 0
    const rect = width > 0 && html`<rect class="tone-${tone}" x="${x.toFixed(2)}" y="0"
      width="${width.toFixed(2)}" height="${HEIGHT}"><title>${name}: ${count(rows)}</title></rect>`
    x += width
    return rect
  })
  return html`<svg class="bar" viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none"
    role="img" aria-label="${label}: ${shares.join(', ')}.">${rects}</svg>`
}

/** The widths of numbers of rows, which add up to the width of the bar. */
function scaleToBar (numbers: readonly number[]): readonly number[] {
  const whole = numbers.reduce((sum, rows) => sum + rows, 0)
  if (whole === 0) return numbers.map(() => 0)
  const minimal = numbers.map(rows =>
    rows === 0 ? 0 : Math.max(MIN_WIDTH, WIDTH * rows / whole))
  const sum = minimal.reduce((all, width) => all + width, 0)
  return minimal.map(width => width * WIDTH / sum)
}

/** The color of a segment, beside its name in a table. */
export function swatch (tone: string): Html {
  return html`<svg class="swatch" viewBox="0 0 10 10" width="10" height="10" aria-hidden="true"
    focusable="false"><rect class="tone-${tone}" width="10" height="10" rx="2"/></svg>`
}

const DAY_MS = 86_400_000
const MICROS = 1_000_000

const toDate = (ms: number) => new Date(ms).toISOString().slice(0, 10)

/** The first of the last days, today included, as a date in UTC. */
export function firstOfDays (days: number): string {
  return toDate(Date.now() - (days - 1) * DAY_MS)
}

type DayChart = {
  readonly name: string
  readonly unit: 'rows' | 'usd'
  readonly series: readonly {
    readonly name: string
    readonly tone: string
    readonly valueOf: (usage: UsageGroup) => number
  }[]
}

/** Usage by day as stacked bars, which the script `charts.js` draws; missing days are 0. */
function dayChart ({ from, to, data: groups }: UsageBody, { name, unit, series }: DayChart): Html {
  const days: string[] = []
  for (let ms = Date.parse(from); ms < Date.parse(to); ms += DAY_MS) days.push(toDate(ms))
  const data = {
    unit,
    days,
    series: series.map(({ name, tone, valueOf }) => ({
      name,
      tone,
      values: days.map(day => groups.filter(group => group.day === day)
        .reduce((sum, group) => sum + valueOf(group), 0)),
    })),
  }
  return html`<section><h2>${name} by day</h2>
    <div class="chart"><canvas role="img" data-chart="${JSON.stringify(data)}"
      aria-label="${name} by day from ${days[0]} to ${days.at(-1)}."></canvas></div></section>`
}

/** Rows by verdict and day, and money charged by day. */
export function usageCharts (usage: UsageBody): Html {
  return html`<div class="columns">
    ${dayChart(usage, {
      name: 'Verdicts',
      unit: 'rows',
      series: Object.entries(VERDICTS).map(([status, [name, tone]]) =>
        ({ name, tone, valueOf: ({ verdicts }) => verdicts[status as RowStatus] })),
    })}
    ${dayChart(usage, {
      name: 'Charges',
      unit: 'usd',
      series: [{
        name: 'Charged', tone: 'two', valueOf: ({ chargedMicros }) => chargedMicros / MICROS,
      }],
    })}
  </div>`
}
