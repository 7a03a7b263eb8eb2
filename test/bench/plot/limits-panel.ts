import { shareOfLimit, type LimitCheck } from '../check-limits.ts'
import { formatNumber, formatValue } from '../format.ts'
import { chart, COLORS, titled, type Panel } from './style.ts'

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
export function limitsPanel (checks: readonly LimitCheck[]): Panel | undefined {
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
