import type { Report } from '../report.ts'
import type { GrowthFigures } from '../scenarios/growth.ts'
import type { SoakFigures } from '../scenarios/soak.ts'
import { chart, COLORS, titled, type Panel } from './style.ts'

const MIN_LABELED_SECONDS = 0.1

/** CPU seconds of a fresh large job, stacked by process, above those of the bare loop. */
export function cpuPanel ({ processes, bareLoopMs, rows }: Report): Panel {
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
export function growthPanel ({ steps }: GrowthFigures): Panel {
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
export function memoryPanel ({ samples }: SoakFigures): Panel {
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
