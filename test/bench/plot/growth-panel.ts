import type { GrowthFigures } from '../parts/growth.ts'
import { chart, COLOURS, named, type Panel } from './style.ts'

/** Wall time by rows on logarithmic axes, and the line it would follow if rows were all it cost. */
export function growthPanel ({ steps }: GrowthFigures): Panel {
  const largest = steps.reduce((most, step) => step.rows > most.rows ? step : most)
  const inProportion = steps.map(({ rows }) => [rows, largest.wallMs * rows / largest.rows])
  const times = [...steps.map(({ wallMs }) => wallMs), ...inProportion.map(([, ms = 1]) => ms)]
  const least = 10 ** Math.floor(Math.log10(Math.min(...times)))
  const option = chart('Fresh job by its rows: POST to completed', {
    grid: { left: 80, right: 60, top: 80, bottom: 55 },
    legend: { top: 42, left: 80, itemGap: 20 },
    xAxis: { type: 'log', min: steps[0]?.rows ?? 1, ...named('rows') },
    yAxis: { type: 'log', min: least, ...named('ms', 55) },
    series: [
      {
        name: 'measured',
        type: 'line',
        symbolSize: 8,
        data: steps.map(({ rows, wallMs }) => [rows, wallMs]),
        label: { show: true, position: 'top', formatter: labelOf },
      },
      {
        name: 'in proportion to the largest',
        type: 'line',
        showSymbol: false,
        lineStyle: { type: 'dashed', color: COLOURS.line },
        color: COLOURS.line,
        data: inProportion,
      },
    ],
  })
  return { height: 380, option }
}

function labelOf ({ value }: { readonly value: unknown }): string {
  const [, ms] = value as readonly [number, number]
  return `${ms.toFixed(0)} ms`
}
