import type { Job } from '../../../services/jobs/job.ts'
import { acceptedJob, NO_COUNTS } from '../stage-messages.ts'
import type { Attempt } from '../../../services/webhooks/deliveries.ts'

export const DELIVERED_TENANT = 'org_01.live'
export const DELIVERED_JOB = 'job_01jd3v8zj7m5n2k4q6r8s0t1w3'

/** The first attempt of an event, which timed out after 15 seconds; no other follows. */
export const deliveryAttempt = (more: Partial<Attempt> = {}): Attempt => ({
  tenant: DELIVERED_TENANT,
  job: DELIVERED_JOB,
  event: 'evt_1',
  attempt: 1,
  type: 'job.completed',
  atMs: 1_000,
  outcome: 'failed',
  reason: 'timeout',
  httpStatus: 0,
  durationMs: 15_000,
  nextAtMs: undefined,
  ...more,
})

/** A job that has ended, without a sealed header: callers seal one where they need it. */
export function endedJob (more: Partial<Job> = {}): Job {
  return {
    ...acceptedJob(),
    id: DELIVERED_JOB,
    tenant: DELIVERED_TENANT,
    status: 'completed',
    preflight: {
      totalRows: 10,
      invalidRows: 2,
      duplicateRows: 3,
      cacheHits: 1,
      freshChecks: 4,
      maxQuoteMicros: 10_000,
      quoteId: 'quot_01jd3v8zj7m5n2k4q6r8s0t1w4',
    },
    unitPriceMicros: 2_000,
    createdAtMs: Date.parse('2026-08-11T10:00:00.000Z'),
    updatedAtMs: Date.parse('2026-08-11T10:00:02.000Z'),
    announced: true,
    ended: true,
    closed: true,
    endedAtMs: Date.parse('2026-08-11T10:00:02.500Z'),
    counts: {
      ...NO_COUNTS,
      finishedRows: 10,
      inputBlocks: 1,
      cacheHits: 1,
      freshRecords: 4,
      invalidRecords: 2,
      duplicateRecords: 3,
      successRecords: 8,
      failedRecords: 2,
    },
    verdicts: { 'valid assigned_range': 5, 'invalid unassigned_range': 3, 'invalid too_short': 2 },
    chargedMicros: 8_000,
    releasedMicros: 2_000,
    ...more,
  }
}
