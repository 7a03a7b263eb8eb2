import { describe, expect, it } from 'vitest'
import { jobText } from '../../../services/client/job-commands.ts'
import { summaryText } from '../../../services/client/submit-command.ts'
import {
  count, counted, createProgressLine, duration, money, submitProgressText,
} from '../../../services/client/terminal.ts'

describe('amounts', () => {
  it('are formatted for people', () => {
    expect([money(1_500_000), money(5), money(180_866_000), count(12_345.4)])
      .toEqual(['$1.50', '$0.000005', '$180.866', '12,345'])
    expect([counted(1, 'job'), counted(2_000, 'row')]).toEqual(['1 job', '2,000 rows'])
    expect([7.4, 59.6, 200, 7_500].map(duration))
      .toEqual(['7 s', '1 min 0 s', '3 min 20 s', '2 h 5 min'])
  })
})

describe('the progress of a submission', () => {
  const progress = { done: 600, rows: 1_000, before: 200, jobs: 1, endedJobs: 0 }

  it('shows rows, rate and remaining time', () => {
    expect(submitProgressText(progress, 2))
      .toBe('[##############..........] 60 %  600 of 1,000 rows, 200 rows/s, about 2 s left')
    expect(submitProgressText({ ...progress, jobs: 3, endedJobs: 1, done: 250 }, 2))
      .toBe('[######..................] 25 %  250 of 1,000 rows, 1 of 3 jobs, 25 rows/s')
    expect(submitProgressText({ ...progress, done: 1_000, before: 0 }, 4))
      .toBe(`[${'#'.repeat(24)}] 100 %  1,000 of 1,000 rows, 250 rows/s`)
  })
})

describe('a progress line', () => {
  function outputOf (isTTY: boolean) {
    const written: string[] = []
    let nowMs = 0
    const line = createProgressLine<number>({ write: text => written.push(text), isTTY }, {
      textOf: (number, seconds) => `${number} after ${seconds} s`, now: () => nowMs,
    })
    for (nowMs of [10, 1_000, 1_500, 2_100]) line.show(nowMs)
    line.end()
    line.end()
    return written
  }

  it('is written at most once a second outside a terminal', () => {
    expect(outputOf(false)).toEqual(['1000 after 1 s\n', '2100 after 2.1 s\n'])
  })

  it('is updated in place on a terminal', () => {
    expect(outputOf(true)).toEqual([
      '\r\u001b[K1000 after 1 s', '\r\u001b[K1500 after 1.5 s', '\r\u001b[K2100 after 2.1 s', '\n',
    ])
  })
})

describe('the text for the terminal', () => {
  it('of a job shows its status and price', () => {
    const job = {
      id: 'job_1',
      status: 'verifying' as const,
      service: 'whatsapp',
      totalRows: 2_000,
      cacheHits: 0,
      freshRecords: 1_000,
      successRecords: 1_000,
      failedRecords: 7,
      createdAt: '',
      updatedAt: '',
      resultUrl: '',
      invalidRows: 0,
      duplicateRows: 0,
      invalidRecords: 0,
      duplicateRecords: 0,
      unknownRecords: 7,
      cancelledRecords: 0,
      pendingRecords: 993,
      progressPercent: 50,
      maxQuoteMicros: 4_000_000,
      chargedMicros: 0,
      releasedMicros: 0,
      metadata: {},
      completedAt: null,
      hasOriginalColumns: false,
      erasedAt: null,
      erasureCompletedAt: null,
    }
    expect(jobText(job)).toBe('job_1  verifying, 50 %\n' +
      'whatsapp, 2,000 rows: 1,000 with a verdict, 7 without\nat most $4.00')
    const paid = { chargedMicros: 3_000_000, releasedMicros: 1_000_000 }
    const ended = { ...job, ...paid, completedAt: 'now' }
    expect(jobText(ended)).toMatch(/\npaid \$3\.00, released \$1\.00$/)
  })

  it('of a summary shows rows by status, money and the output', () => {
    expect(summaryText({
      output: 'out.csv',
      rows: 3,
      byStatus: { valid: 2, invalid: 1 },
      chargedMicros: 10,
      releasedMicros: 0,
      jobs: [],
      completed: true,
    })).toBe('3 rows: 2 valid, 1 invalid\npaid $0.00001, released $0.00\nwritten to out.csv')
  })
})
