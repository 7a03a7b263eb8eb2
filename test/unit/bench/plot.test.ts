import { describe, expect, it } from 'vitest'
import { checkLimit, checkLimits } from '../../bench/limits.ts'
import { limitsPanel, plotPage, cpuPanel } from '../../bench/plot.ts'
import { CORE_REPORT, FULL_REPORT } from './sample-reports.ts'

type Series = { readonly name: string, readonly data: readonly unknown[] }
const seriesOf = (option: object | undefined) =>
  (option as { readonly series: readonly Series[] }).series

describe('limitsPanel', () => {
  const upper = {
    figure: 'a ratio', unit: 'ratio', bound: 'upper', limit: 2, target: 1,
  } as const
  const lower = {
    figure: 'a rate', unit: 'rows/s', bound: 'lower', limit: 100, target: 200,
  } as const

  it('shows values and targets as shares of the limit, from the top', () => {
    const checks = [checkLimit(upper, 3), checkLimit(lower, 400), checkLimit(upper, undefined)]
    const option = limitsPanel(checks)?.option
    const [bars, targets] = seriesOf(option)
    expect(bars?.data).toEqual([
      { value: 25, itemStyle: { color: '#2e8b57' } },
      { value: 150, itemStyle: { color: '#c0392b' } },
    ])
    expect(option?.yAxis).toMatchObject([
      { data: ['a rate', 'a ratio'] },
      { data: ['400 / 100 rows/s', '3.00 / 2.00'] },
    ])
    expect(targets?.data).toEqual([50, 50])
  })

  it('returns nothing without measured figures', () => {
    expect(limitsPanel([checkLimit(upper, undefined)])).toBeUndefined()
  })
})

describe('cpuPanel', () => {
  it('stacks the processes of a job above the bare loop', () => {
    const series = seriesOf(cpuPanel(CORE_REPORT).option)
    expect(series.map(({ name, data }) => [name, data])).toEqual([
      ['ingest-1', ['-', '0.500']],
      ['normalize-1', ['-', '0.300']],
      ['kafka-1', ['-', '0.100']],
      ['bare loop', ['1.000', '-']],
    ])
  })
})

describe('plotPage', () => {
  const page = plotPage(FULL_REPORT, checkLimits(FULL_REPORT))

  it('returns one SVG that contains all charts', () => {
    expect(page.startsWith('<svg xmlns="http://www.w3.org/2000/svg" width="1000"')).toBe(true)
    expect(page.match(/<svg /g)).toHaveLength(5)
    expect(page.trimEnd().endsWith('</svg>')).toBe(true)
  })

  it('names series and units', () => {
    for (const text of ['bare loop', 'resident MB', 'growth: wall time of all rows / of a tenth']) {
      expect(page).toContain(`>${text}<`)
    }
  })

  it('omits the charts of scenarios that did not run', () => {
    const core = plotPage(CORE_REPORT, checkLimits(CORE_REPORT))
    expect(core.match(/<svg /g)).toHaveLength(3)
    expect(core).not.toContain('resident MB')
  })
})
