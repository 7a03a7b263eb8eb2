import { shareOfLimit, type Judgement } from '../judge.ts'
import { numberText, valueText } from '../text.ts'
import { chart, COLOURS, named, type Panel } from './style.ts'

const COLOUR_OF = {
  'aim met': COLOURS.good, met: COLOURS.fair, missed: COLOURS.bad, 'not measured': COLOURS.line,
} as const
const BAR_PIXELS = 34
const MEANING = '% of the limit (less is better); green: aim met, amber: limit met, red: missed'
const PLAIN_AXIS = { axisLine: { show: false }, axisTick: { show: false } }

/** Every measured figure as a share of its limit, so that all fit one axis; aims as marks. */
export function limitsPanel (judgements: readonly Judgement[]): Panel | undefined {
  // The axis counts from below.
  const measured = judgements.filter(({ value }) => value !== undefined).toReversed()
  if (measured.length === 0) return undefined
  const bars = measured.map(judgement => ({
    value: percentOf(judgement, judgement.value),
    itemStyle: { color: COLOUR_OF[judgement.verdict] },
  }))
  const aims = measured.map(judgement => percentOf(judgement, judgement.aim) ?? '-')
  const option = chart('Figures against their limits', {
    grid: { left: 330, right: 230, top: 80, bottom: 50 },
    legend: { top: 12, right: 230, data: ['aim'] },
    xAxis: { type: 'value', min: 0, ...named(MEANING) },
    yAxis: [
      { type: 'category', data: measured.map(({ figure }) => figure) },
      { ...PLAIN_AXIS, type: 'category', position: 'right', data: measured.map(labelOf) },
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
          lineStyle: { color: COLOURS.bad, width: 2, type: 'solid' },
          label: { formatter: 'limit' },
          data: [{ xAxis: 100 }],
        },
      },
      {
        name: 'aim',
        type: 'scatter',
        data: aims,
        symbol: 'rect',
        symbolSize: [3, 26],
        color: '#222222',
      },
    ],
  })
  return { height: 130 + measured.length * BAR_PIXELS, option }
}

function percentOf (judgement: Judgement, value: number | undefined): number | undefined {
  return value === undefined ? undefined : shareOfLimit(judgement, value) * 100
}

function labelOf ({ value = NaN, unit, limit }: Judgement): string {
  return `${numberText(value, unit)} / ${valueText(limit, unit)}`
}
