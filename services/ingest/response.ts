import type { AcceptedBody } from '../../schemas/api/create-job.ts'
import type { JobBody } from '../../schemas/api/job.ts'
import type { Job, JobStatus } from '../jobs/job.ts'
import type { Submitted } from '../jobs/submit.ts'
import type { JobHeader } from '../jobs/wire.ts'
import type { Fault } from './errors.ts'

/** No estimate is better than this for a place among the active jobs, in seconds. */
const SLOT_RETRY_SECONDS = 5
const UNAVAILABLE_RETRY_SECONDS = 5

/** Where a job is found, relative to the host. */
export function jobPath (jobId: string): string {
  return `/api/v1/jobs/${jobId}`
}

/** The body of the 202: one superset for both client typings, the same for a job at any time. */
export function acceptedBody (job: Job): AcceptedBody {
  const { totalRows, invalidRows, duplicateRows, cacheHits, freshChecks, maxQuoteMicros, quoteId } =
    job.preflight
  return {
    id: job.id,
    status: 'queued',
    preflight: {
      totalRows, invalidRows, duplicateRows, cacheHits, freshChecks, maxQuoteMicros, quoteId,
    },
    ok: true,
    data: {
      id: job.id,
      service: job.service,
      status: 'queued',
      item_count: totalRows,
      max_quote_micros: maxQuoteMicros,
      created_at: new Date(job.createdAtMs).toISOString(),
    },
  }
}

/** The status resource of a job. */
export function jobBody (job: Job, header: JobHeader): JobBody {
  const { preflight, counts } = job
  return {
    id: job.id,
    status: visibleStatus(job),
    totalRows: preflight.totalRows,
    cacheHits: counts.cacheHits,
    freshRecords: counts.freshRecords,
    successRecords: counts.successRecords,
    failedRecords: counts.failedRecords,
    createdAt: new Date(job.createdAtMs).toISOString(),
    updatedAt: new Date(job.updatedAtMs).toISOString(),
    resultUrl: `${jobPath(job.id)}/results`,
    service: job.service,
    invalidRows: preflight.invalidRows,
    duplicateRows: preflight.duplicateRows,
    progressPercent: progressPercent(job),
    maxQuoteMicros: preflight.maxQuoteMicros,
    chargedMicros: job.chargedMicros,
    releasedMicros: job.releasedMicros,
    metadata: { ...header.metadata },
    completedAt: job.closed ? new Date(job.endedAtMs).toISOString() : null,
  }
}

/**
 * A job shows its end only once it is closed, when its results can be read; until then it shows
 * the state before.
 */
export function visibleStatus (job: Job): JobStatus {
  if (job.closed) return job.status
  switch (job.status) {
    case 'completed':
    case 'failed': return job.preflight.freshChecks > 0 ? 'verifying' : 'preparing'
    case 'cancelled': return 'cancelling'
    default: return job.status
  }
}

/** The answer to a request that made no job; the rest of the outcomes are jobs. */
export function refusalFault (outcome: Exclude<Submitted, { kind: 'accepted' }>): Fault {
  if (outcome.kind === 'reused') {
    return { code: 'idempotency_key_reused', param: 'Idempotency-Key' }
  }
  const { refusal } = outcome
  switch (refusal.code) {
    case 'insufficient_balance': return {
      code: 'insufficient_balance',
      more: {
        requiredMicros: refusal.requiredMicros, availableMicros: refusal.availableMicros,
      },
    }
    case 'concurrent_jobs_limit': return {
      code: 'concurrent_jobs_limit', retryAfterSeconds: SLOT_RETRY_SECONDS,
    }
    case 'expired':
    case 'internal': return {
      code: 'temporarily_unavailable',
      message: 'The job could not be accepted now. Nothing was reserved. Send it again after the ' +
        'seconds in Retry-After.',
      retryAfterSeconds: UNAVAILABLE_RETRY_SECONDS,
    }
  }
}

function progressPercent (job: Job): number {
  if (job.closed) return 100
  const { totalRows } = job.preflight
  // The last percent is the end itself, which comes when the results can be read.
  return Math.min(99, Math.floor(100 * job.counts.finishedRows / totalRows))
}
