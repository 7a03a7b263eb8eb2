import { describe, expect, it } from 'vitest'
import { breakdown, partsOf, widthsOf } from '../../../../services/workspace/page/breakdown.ts'
import { jobLike } from '../../../support/page-parts.ts'

const sum = (numbers: readonly number[]) => numbers.reduce((all, one) => all + one, 0)

describe('the parts of a job', () => {
  it('add up to its rows, with what is open', () => {
    const parts = partsOf(jobLike())
    expect(parts.map(({ rows }) => rows)).toEqual([3, 2, 1, 1, 3])
    expect(sum(parts.map(({ rows }) => rows))).toBe(10)
  })

  it('fill the bar, and the smallest is still seen', () => {
    const parts = partsOf(jobLike({ totalRows: 100_000, freshRecords: 99_995 }))
    const widths = widthsOf(parts)
    expect(sum(widths)).toBeCloseTo(1_000)
    expect(Math.min(...widths.filter(width => width > 0))).toBeGreaterThan(3.9)
    expect(widthsOf(parts.map(part => ({ ...part, rows: 0 })))).toEqual([0, 0, 0, 0, 0])
  })
})

describe('the breakdown', () => {
  it('says the same in the drawing and in the table', () => {
    const { html } = breakdown(jobLike())
    expect(html).toContain('aria-label="Where verdicts come from: Checked live 30 %, ' +
      'From your cache 20 %, Duplicates 10 %, Not readable 10 %, Open 30 %."')
    expect(html.match(/<tr>/g)).toHaveLength(1 + 5 + 2)
    expect(html).toContain('<td class="number">60 %</td>')
  })
})
