import type { AcceptedBody } from '../../schemas/api/create-job.ts'
import type { Job } from '../jobs/job.ts'
import type { Submitted } from '../jobs/submit.ts'
import type { ApiError } from './errors.ts'

export { jobBody, jobPath, visibleStatus } from '../jobs/job-view.ts'

/** The estimate for a free slot among the active jobs, in seconds. */
const SLOT_RETRY_SECONDS = 5
const UNAVAILABLE_RETRY_SECONDS = 5

/** The retry delay while the infrastructure that knows the outcome of a request is unavailable. */
export const OUTCOME_UNKNOWN: ApiError = {
  code: 'temporarily_unavailable',
  message: 'Whether the job was accepted is not known yet. Send the same request again with the ' +
    'same Idempotency-Key: it is answered with the job, or evaluated again.',
}

/** The body of the 202 response: a superset for both client typings, always the same for a job. */
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

/** The error for a request that created no job. */
export function refusalError (outcome: Exclude<Submitted, { kind: 'accepted' }>): ApiError {
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
    case 'frozen': return {
      code: 'wallet_unavailable', retryAfterSeconds: UNAVAILABLE_RETRY_SECONDS,
    }
    // Only a quote request has the outcome `quoted`.
    case 'quoted':
    case 'cursor_moved':
    case 'expired':
    case 'internal': return {
      code: 'temporarily_unavailable',
      message: 'The job could not be accepted now. Nothing was reserved. Send it again after the ' +
        'seconds in Retry-After.',
      retryAfterSeconds: UNAVAILABLE_RETRY_SECONDS,
    }
  }
}
