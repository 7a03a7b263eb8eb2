import { describe, expect, it } from 'vitest'
import {
  breakdown, segmentsOf, widthsOf,
} from '../../../services/page/job-components.ts'
import { jobLike } from '../../support/page/page-doubles.ts'

const sum = (numbers: readonly number[]) => numbers.reduce((all, one) => all + one, 0)

describe('the segments of a breakdown', () => {
  it('add up to the rows of the job, including open rows', () => {
    const segments = segmentsOf(jobLike({
      freshRecords: 1, unknownRecords: 1, cancelledRecords: 2, pendingRecords: 2,
    }))
    expect(segments.map(({ rows }) => rows)).toEqual([1, 2, 1, 1, 1, 2, 2])
    expect(sum(segments.map(({ rows }) => rows))).toBe(10)
  })

  it('fill the bar, and the smallest one is visible', () => {
    const segments = segmentsOf(jobLike({ totalRows: 100_000, freshRecords: 99_995 }))
    const widths = widthsOf(segments)
    expect(sum(widths)).toBeCloseTo(1_000)
    expect(Math.min(...widths.filter(width => width > 0))).toBeGreaterThan(3.9)
    expect(widthsOf(segments.map(segment => ({ ...segment, rows: 0 })))).toEqual(Array(7).fill(0))
  })
})

describe('the breakdown of a job', () => {
  it('shows the same values in the bar and in the table', () => {
    const { html } = breakdown(jobLike())
    expect(html).toContain('aria-label="Where verdicts come from: Checked live 30 %, ' +
      'From your cache 20 %, Duplicates 10 %, Not readable 10 %, Open 30 %."')
    expect(html.match(/<tr>/g)).toHaveLength(1 + 7 + 2)
    expect(html).toContain('<td class="number">60 %</td>')
  })
})
