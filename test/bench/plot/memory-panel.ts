import type { SoakFigures } from '../parts/soak.ts'
import { chart, named, type Panel } from './style.ts'

/** Resident memory of each service over the time of the soak. */
export function memoryPanel ({ samples }: SoakFigures): Panel {
  const names = Object.keys(samples.at(-1)?.mb ?? {})
  const option = chart('Memory under a steady load', {
    grid: { left: 80, right: 60, top: 95, bottom: 55 },
    legend: { top: 42, left: 80, right: 60, icon: 'roundRect', itemGap: 20 },
    xAxis: { type: 'value', max: 'dataMax', ...named('minutes') },
    yAxis: { type: 'value', min: 0, ...named('resident MB', 50) },
    series: names.map(name => ({
      name,
      type: 'line',
      showSymbol: false,
      data: samples.map(({ second, mb }) => [second / 60, mb[name] ?? '-']),
    })),
  })
  return { height: 430, option }
}
