import { describe, expect, it } from 'vitest'
import { judge, judgeAll } from '../../bench/judge.ts'
import { cpuPanel } from '../../bench/plot/cpu-panel.ts'
import { limitsPanel } from '../../bench/plot/limits-panel.ts'
import { plotPage } from '../../bench/plot/page.ts'
import { FULL, PLAIN } from './report.ts'

type Series = { readonly name: string, readonly data: readonly unknown[] }
const seriesOf = (option: object | undefined) =>
  (option as { readonly series: readonly Series[] }).series

describe('the chart of the limits', () => {
  const most = { figure: 'a ratio', unit: 'ratio', is: 'most', limit: 2, aim: 1 } as const
  const least = { figure: 'a rate', unit: 'rows/s', is: 'least', limit: 100, aim: 200 } as const

  it('shows values and aims as shares of the limit, from the top', () => {
    const judgements = [judge(most, 3), judge(least, 400), judge(most, undefined)]
    const option = limitsPanel(judgements)?.option
    const [bars, aims] = seriesOf(option)
    expect(bars?.data).toEqual([
      { value: 25, itemStyle: { color: '#2e8b57' } },
      { value: 150, itemStyle: { color: '#c0392b' } },
    ])
    expect(option?.yAxis).toMatchObject([
      { data: ['a rate', 'a ratio'] },
      { data: ['400 / 100 rows/s', '3.00 / 2.00'] },
    ])
    expect(aims?.data).toEqual([50, 50])
  })

  it('is left out when nothing was measured', () => {
    expect(limitsPanel([judge(most, undefined)])).toBeUndefined()
  })
})

describe('the chart of CPU seconds', () => {
  it('stacks the processes of a job above the bare loop', () => {
    const series = seriesOf(cpuPanel(PLAIN).option)
    expect(series.map(({ name, data }) => [name, data])).toEqual([
      ['ingest-1', ['-', '0.500']],
      ['normalize-1', ['-', '0.300']],
      ['kafka-1', ['-', '0.100']],
      ['bare loop', ['1.000', '-']],
    ])
  })
})

describe('the page', () => {
  const page = plotPage(FULL, judgeAll(FULL))

  it('is one SVG with a chart below the other', () => {
    expect(page.startsWith('<svg xmlns="http://www.w3.org/2000/svg" width="1000"')).toBe(true)
    expect(page.match(/<svg /g)).toHaveLength(5)
    expect(page.trimEnd().endsWith('</svg>')).toBe(true)
  })

  it('names all series, axes and units', () => {
    const texts = [...page.matchAll(/<text[^>]*>([^<]*)</g)].map(([, text]) => text)
    for (const text of [
      'Figures against their limits', 'aim', 'limit', 'ingest-1', 'normalize-1', 'kafka-1',
      'settle-1', 'bare loop', 'in proportion to the largest', 'minutes', 'resident MB', 'rows',
      'ms', 'CPU seconds', 'growth: wall of all rows / a tenth of them', '960 ms',
    ]) expect(texts).toContain(text)
  })

  it('has no chart of what was not measured', () => {
    const plain = plotPage(PLAIN, judgeAll(PLAIN))
    expect(plain.match(/<svg /g)).toHaveLength(3)
    expect(plain).not.toContain('resident MB')
  })
})
