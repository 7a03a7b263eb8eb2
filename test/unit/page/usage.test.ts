import { describe, expect, it } from 'vitest'
import type { UsageBody, UsageGroup } from '../../../schemas/api/usage.ts'
import { eraseView, isErasable, jobView } from '../../../services/page/jobs.ts'
import { daysOf, summed, usageView } from '../../../services/page/usage.ts'
import { ended, jobLike, visitLike } from '../../support/page/page-doubles.ts'
import { NO_USAGE } from '../ingest/doubles.ts'

const visit = visitLike()
const text = ({ html: source }: { readonly html: string }) =>
  source.replace(/<[^>]+>/g, ' ').replace(/\s+/g, ' ')
type Name = Required<Pick<UsageGroup, 'day' | 'service' | 'key'>>
const group = (name: Name, rows: number): UsageGroup => ({
  ...NO_USAGE,
  ...name,
  jobs: 1,
  totalRows: rows,
  freshRecords: rows / 2,
  cacheHits: 1,
  chargedMicros: rows * 1_000,
})
const usage: UsageBody = {
  from: '2026-08-10T00:00:00.000Z',
  to: '2026-08-12T10:00:00.000Z',
  group_by: ['day', 'service', 'key'],
  data: [
    group({ day: '2026-08-10', service: 'whatsapp', key: 'key_1' }, 10),
    group({ day: '2026-08-10', service: 'telegram', key: null }, 4),
    group({ day: '2026-08-12', service: 'whatsapp', key: 'key_1' }, 2),
  ],
  total: { ...NO_USAGE, jobs: 3, totalRows: 16, chargedMicros: 16_000 },
}

describe('the page of usage', () => {
  it('adds groups up by one of their names', () => {
    expect([...summed(usage.data, 'service')].map(([name, { totalRows }]) => [name, totalRows]))
      .toEqual([['whatsapp', 12], ['telegram', 4]])
    expect(daysOf(usage)).toEqual(['2026-08-10', '2026-08-11', '2026-08-12'])
  })

  it('draws a bar of segments for each day with rows, and has the numbers as tables', () => {
    const page = usageView(visit, { usage, days: 30 })
    expect(page.html.match(/<g>/g)).toHaveLength(2)
    expect(page.html).toContain('<title>2026-08-10: 14 rows, 7 checked live,')
    const heights = [...page.html.matchAll(/<rect class="tone-\w+" [^>]*height="([\d.]+)"/g)]
      .map(([, height]) => Number(height))
    // The highest day fills the chart: live, cache, and the rest.
    expect(heights.slice(0, 3).reduce((sum, height) => sum + height, 0)).toBeCloseTo(200, 1)
    expect(text(page)).toContain('3 jobs, 16 rows, $0.016 charged')
    expect(text(page)).toMatch(/key_1 2 12 6 2 \$0.012/)
    expect(text(page)).toMatch(/Unknown 1 4 2 1 \$0.004/)
    expect(page.html).toContain('href="/live/usage" aria-current="page"')
  })

  it('says that there is nothing, instead of an empty chart', () => {
    const page = usageView(visit, { usage: { ...usage, data: [] }, days: 7 })
    expect(page.html).not.toContain('<svg class="chart"')
    expect(text(page)).toContain('No job was created in this time.')
  })
})

describe('the page that erases a job', () => {
  const details = { preview: undefined, attempts: [], notice: undefined }

  it('asks first, and is offered for jobs that have ended and are not erased', () => {
    const job = jobLike(ended)
    expect(isErasable(job)).toBe(true)
    expect(jobView(visit, { ...details, job }).html).toContain('href="/live/jobs/job_1/erase"')
    const page = eraseView(visit, job)
    expect(page.html).toContain('action="/live/jobs/job_1/erase"')
    expect(text(page)).toContain('This cannot be undone.')
    expect(isErasable(jobLike())).toBe(false)
    const erased = jobLike({ ...ended, erasedAt: '2026-11-22T12:00:00.000Z' })
    expect(isErasable(erased)).toBe(false)
    const erasedPage = jobView(visit, { ...details, job: erased })
    expect(erasedPage.html).not.toContain('/erase"')
    expect(text(erasedPage)).toContain('This job is erased.')
  })
})
