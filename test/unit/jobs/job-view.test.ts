import { describe, expect, it } from 'vitest'
import { jobBody, jobPath } from '../../../services/jobs/job-view.ts'
import type { WaitingRows } from '../../../services/jobs/job.ts'
import { DELIVERED_JOB, endedJob } from '../../support/webhooks/deliveries.ts'

const header = { metadata: { campaign: 'spring' }, webhookUrl: 'https://a.example/' }

describe('the status resource', () => {
  it('adds up rows and money, and has labels but no address', () => {
    const body = jobBody(endedJob(), header)
    expect(body).toMatchObject({
      resultUrl: `${jobPath(DELIVERED_JOB)}/results`,
      invalidRows: 2,
      duplicateRows: 3,
      pendingRecords: 0,
      verdicts: { valid: 5, invalid: 5, risky: 0, unknown: 0 },
      reasons: { assigned_range: 5, too_short: 2, unassigned_range: 3 },
      progressPercent: 100,
      maxQuoteMicros: 10_000,
      chargedMicros: 8_000,
      releasedMicros: 2_000,
      metadata: { campaign: 'spring' },
      completedAt: '2026-08-11T10:00:02.500Z',
    })
    expect(JSON.stringify(body)).not.toContain('a.example')
  })

  it('shows the deadline, and what waits until then at the latest', () => {
    const atMs = (seconds: number) => Date.parse('2026-08-11T10:00:00.000Z') + seconds * 1_000
    const waiting = (lastDueMs: number) =>
      ({ rows: 3, reasons: { greylisted: 3 }, lastDueMs, dueRows: 0 })
    const running = endedJob({ ended: false, status: 'verifying', deadlineMs: atMs(60) })
    expect(jobBody(running, header, { waiting: waiting(atMs(5)) })).toMatchObject({
      deadline: '2026-08-11T10:01:00.000Z',
      waiting: {
        rows: 3, reasons: { greylisted: 3 }, estimatedEndAt: '2026-08-11T10:00:05.000Z',
      },
    })
    expect(jobBody(running, header, { waiting: waiting(atMs(300)) }).waiting)
      .toMatchObject({ estimatedEndAt: '2026-08-11T10:01:00.000Z' })
    expect(jobBody(endedJob(), header, { waiting: waiting(atMs(300)) }).waiting)
      .toMatchObject({ estimatedEndAt: '2026-08-11T10:05:00.000Z' })
    const usual = { ...waiting(atMs(300)), deadlineMs: atMs(120) }
    expect(jobBody(endedJob(), header, { waiting: usual }).waiting)
      .toMatchObject({ estimatedEndAt: '2026-08-11T10:02:00.000Z' })
  })

  it('estimates no earlier end than the pace of the rows in the last minutes', () => {
    const { counts, createdAtMs } = endedJob()
    const pending = (answered: number) => endedJob({
      ended: false,
      updatedAtMs: createdAtMs + 60_000,
      counts: { ...counts, freshRecords: answered, unknownRecords: 0, cacheHits: 1_000 },
    })
    const endOf = (answered: number, dueRows: number, earlier?: WaitingRows['earlier']) => {
      const waiting = {
        rows: 10_000,
        reasons: { timeout: 10_000 },
        lastDueMs: createdAtMs + 90_000,
        dueRows,
        earlier,
      }
      return jobBody(pending(answered), header, { waiting }).waiting?.estimatedEndAt
    }
    expect(endOf(600, 6_000)).toBe('2026-08-11T10:11:00.000Z')
    expect(endOf(600, 6)).toBe('2026-08-11T10:01:30.000Z')
    expect(endOf(0, 6_000)).toBe('2026-08-11T10:01:30.000Z')
    const earlier = { atMs: createdAtMs + 30_000, answered: 500 }
    expect(endOf(600, 6_000, earlier)).toBe('2026-08-11T10:31:00.000Z')
    // Without an answer since, the pace so far is the best there is.
    expect(endOf(500, 6_000, earlier)).toBe('2026-08-11T10:13:00.000Z')
  })

  it('shows the end as soon as the money is settled', () => {
    expect(jobBody(endedJob({ closed: false }), header)).toEqual(jobBody(endedJob(), header))
    const running = endedJob({ ended: false, status: 'verifying' })
    expect(jobBody(running, header))
      .toMatchObject({ status: 'verifying', progressPercent: 99, completedAt: null })
  })
})
