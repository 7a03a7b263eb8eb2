import type { Report } from '../report.ts'
import { chart, COLOURS, named, type Panel } from './style.ts'

const LABEL_FROM_SECONDS = 0.1

/** CPU seconds of a fresh big job, one piece a process, above what the bare loop takes. */
export function cpuPanel ({ processes, bareLoopMs, rows }: Report): Panel {
  const jobOnly = (seconds: number) => ['-', seconds.toFixed(3)]
  const series = processes.map(({ name, cpuSeconds }) => ({
    name,
    type: 'bar' as const,
    stack: 'cpu',
    data: jobOnly(cpuSeconds),
    label: { show: cpuSeconds >= LABEL_FROM_SECONDS, formatter: cpuSeconds.toFixed(2) },
  }))
  const bare = (bareLoopMs / 1_000).toFixed(3)
  const option = chart(`CPU seconds of a fresh job of ${rows.toLocaleString('en')} rows`, {
    grid: { left: 100, right: 60, top: 115, bottom: 55 },
    legend: { top: 42, left: 100, right: 60, icon: 'roundRect', itemGap: 20 },
    xAxis: { type: 'value', ...named('CPU seconds') },
    yAxis: { type: 'category', data: ['bare loop', 'job'] },
    series: [...series, {
      name: 'bare loop',
      type: 'bar',
      stack: 'cpu',
      color: COLOURS.line,
      data: [bare, '-'],
      label: { show: true, formatter: (bareLoopMs / 1_000).toFixed(2) },
    }],
  })
  return { height: 320, option }
}
