import { init, type EChartsOption } from 'echarts'
import { type LimitCheck, shareOfLimit } from './limits.ts'
import type { Report } from './run.ts'
import type { GrowthFigures } from './scenarios/growth.ts'
import type { SoakFigures } from './scenarios/soak.ts'
import { formatNumber, formatValue } from './table.ts'

/** A chart of the page and its height in pixels; all have the same width. */
type Panel = { readonly height: number, readonly option: EChartsOption }

const WIDTH = 1_000
const COLORS = {
  good: '#2e8b57', fair: '#e0a100', bad: '#c0392b', line: '#555555',
} as const

/** Distinguishable on white, also in print. */
const SERIES = [
  '#1f6fb4', '#e07b00', '#2e8b57', '#c0392b', '#7d55b0', '#8a5a44', '#d264a8', '#6f6f6f',
  '#a8a820', '#17a2b8', '#0b3d66', '#8fbf5a', '#f0a58f', '#444466',
]

/** Renders a report as one SVG with the charts below each other. */
export function plotPage (report: Report, limitChecks: readonly LimitCheck[]): string {
  const { growth, soak } = report
  const panels = [
    limitsPanel(limitChecks),
    cpuPanel(report),
    growth && growthPanel(growth),
    soak && memoryPanel(soak),
  ]
  return joinPanels(panels.filter(panel => panel !== undefined))
}

function joinPanels (panels: readonly Panel[]): string {
  let top = 0
  const svgs = panels.map(panel => {
    const svg = renderPanel(panel).replace('<svg ', `<svg y="${top}" `)
    top += panel.height
    return svg
  })
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${top}" ` +
      `viewBox="0 0 ${WIDTH} ${top}">`,
    ...svgs,
    '</svg>\n',
  ].join('\n')
}

function renderPanel ({ height, option }: Panel): string {
  const chart = init(null, null, { renderer: 'svg', ssr: true, width: WIDTH, height })
  try {
    chart.setOption(option)
    return chart.renderToSVGString()
  } finally {
    chart.dispose()
  }
}

const MIN_LABELED_SECONDS = 0.1

/** CPU seconds of a fresh large job, stacked by process, above those of the bare loop. */
function cpuPanel ({ processes, bareLoopMs, rows }: Report): Panel {
  const jobOnly = (seconds: number) => ['-', seconds.toFixed(3)]
  const series = processes.map(({ name, cpuSeconds }) => ({
    name,
    type: 'bar' as const,
    stack: 'cpu',
    data: jobOnly(cpuSeconds),
    label: { show: cpuSeconds >= MIN_LABELED_SECONDS, formatter: cpuSeconds.toFixed(2) },
  }))
  const bare = (bareLoopMs / 1_000).toFixed(3)
  const option = chart(`CPU seconds of a fresh job of ${rows.toLocaleString('en')} rows`, {
    grid: { left: 100, right: 60, top: 115, bottom: 55 },
    legend: { top: 42, left: 100, right: 60, icon: 'roundRect', itemGap: 20 },
    xAxis: { type: 'value', ...titled('CPU seconds') },
    yAxis: { type: 'category', data: ['bare loop', 'job'] },
    series: [...series, {
      name: 'bare loop',
      type: 'bar',
      stack: 'cpu',
      color: COLORS.line,
      data: [bare, '-'],
      label: { show: true, formatter: (bareLoopMs / 1_000).toFixed(2) },
    }],
  })
  return { height: 320, option }
}

/** Wall time by rows on logarithmic axes, and the line of a time proportional to the rows. */
function growthPanel ({ steps }: GrowthFigures): Panel {
  const largest = steps.reduce((max, step) => step.rows > max.rows ? step : max)
  const proportional = steps.map(({ rows }) => [rows, largest.wallMs * rows / largest.rows])
  const times = [...steps.map(({ wallMs }) => wallMs), ...proportional.map(([, ms = 1]) => ms)]
  const min = 10 ** Math.floor(Math.log10(Math.min(...times)))
  const option = chart('Fresh job by its rows: POST to completed', {
    grid: { left: 80, right: 60, top: 80, bottom: 55 },
    legend: { top: 42, left: 80, itemGap: 20 },
    xAxis: { type: 'log', min: steps[0]?.rows ?? 1, ...titled('rows') },
    yAxis: { type: 'log', min, ...titled('ms', 55) },
    series: [
      {
        name: 'measured',
        type: 'line',
        symbolSize: 8,
        data: steps.map(({ rows, wallMs }) => [rows, wallMs]),
        label: { show: true, position: 'top', formatter: msLabel },
      },
      {
        name: 'proportional to the largest',
        type: 'line',
        showSymbol: false,
        lineStyle: { type: 'dashed', color: COLORS.line },
        color: COLORS.line,
        data: proportional,
      },
    ],
  })
  return { height: 380, option }
}

function msLabel ({ value }: { readonly value: unknown }): string {
  const [, ms] = value as readonly [number, number]
  return `${ms.toFixed(0)} ms`
}

/** Resident memory of each service during the soak. */
function memoryPanel ({ samples }: SoakFigures): Panel {
  const names = Object.keys(samples.at(-1)?.mb ?? {})
  const option = chart('Memory under a steady load', {
    grid: { left: 80, right: 60, top: 95, bottom: 55 },
    legend: { top: 42, left: 80, right: 60, icon: 'roundRect', itemGap: 20 },
    xAxis: { type: 'value', max: 'dataMax', ...titled('minutes') },
    yAxis: { type: 'value', min: 0, ...titled('resident MB', 50) },
    series: names.map(name => ({
      name,
      type: 'line',
      showSymbol: false,
      data: samples.map(({ second, mb }) => [second / 60, mb[name] ?? '-']),
    })),
  })
  return { height: 430, option }
}

const COLOR_OF = {
  'target met': COLORS.good,
  'limit met': COLORS.fair,
  'limit missed': COLORS.bad,
  'not measured': COLORS.line,
} as const
const BAR_PIXELS = 34
const AXIS_TITLE =
  '% of the limit (less is better); green: target met, amber: limit met, red: missed'
const PLAIN_AXIS = { axisLine: { show: false }, axisTick: { show: false } }

/** Every measured figure as a share of its limit, so that all share one axis; targets as marks. */
function limitsPanel (checks: readonly LimitCheck[]): Panel | undefined {
  // The category axis starts at the bottom.
  const measured = checks.filter(({ value }) => value !== undefined).toReversed()
  if (measured.length === 0) return undefined
  const bars = measured.map(check => ({
    value: percentOf(check, check.value),
    itemStyle: { color: COLOR_OF[check.status] },
  }))
  const targets = measured.map(check => percentOf(check, check.target) ?? '-')
  const option = chart('Figures as shares of their limits', {
    grid: { left: 330, right: 230, top: 80, bottom: 50 },
    legend: { top: 12, right: 230, data: ['target'] },
    xAxis: { type: 'value', min: 0, ...titled(AXIS_TITLE) },
    yAxis: [
      { type: 'category', data: measured.map(({ figure }) => figure) },
      { ...PLAIN_AXIS, type: 'category', position: 'right', data: measured.map(valueLabel) },
    ],
    series: [
      {
        name: 'measured',
        type: 'bar',
        data: bars,
        barWidth: '60%',
        markLine: {
          silent: true,
          symbol: 'none',
          lineStyle: { color: COLORS.bad, width: 2, type: 'solid' },
          label: { formatter: 'limit' },
          data: [{ xAxis: 100 }],
        },
      },
      {
        name: 'target',
        type: 'scatter',
        data: targets,
        symbol: 'rect',
        symbolSize: [3, 26],
        color: '#222222',
      },
    ],
  })
  return { height: 130 + measured.length * BAR_PIXELS, option }
}

function percentOf (check: LimitCheck, value: number | undefined): number | undefined {
  return value === undefined ? undefined : shareOfLimit(check, value) * 100
}

function valueLabel ({ value = NaN, unit, limit }: LimitCheck): string {
  return `${formatNumber(value, unit)} / ${formatValue(limit, unit)}`
}

/** The common style of all charts: light, and without animation. */
function chart (title: string, option: EChartsOption): EChartsOption {
  return {
    animation: false,
    backgroundColor: '#ffffff',
    color: SERIES,
    textStyle: { fontFamily: 'sans-serif', fontSize: 13, color: '#222222' },
    title: { text: title, left: 12, top: 10, textStyle: { fontSize: 16, color: '#222222' } },
    ...option,
  }
}

/** Centers the title of an axis. */
function titled (name: string, gap = 30) {
  return { name, nameLocation: 'middle' as const, nameGap: gap }
}
