import type { JobBody } from '../../schemas/api/job.ts'
import type { JobErasure } from './erasures.ts'
import type { Job, JobStatus } from './job.ts'
import type { JobHeader } from './rows-seal.ts'

/** The path of a job in the REST API. */
export function jobPath (jobId: string): string {
  return `/api/v1/jobs/${jobId}`
}

/**
 * The JSON body of a job. Status, progress, money and the time of the end change together, when the
 * job is closed; until then only the counts of rows change.
 */
export function jobBody (job: Job, header: JobHeader, erasure?: JobErasure): JobBody {
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
    invalidRecords: counts.invalidRecords,
    duplicateRecords: counts.duplicateRecords,
    unknownRecords: counts.unknownRecords,
    cancelledRecords: counts.cancelledRecords,
    pendingRecords: preflight.totalRows - counts.finishedRows,
    progressPercent: progressPercent(job),
    maxQuoteMicros: preflight.maxQuoteMicros,
    ...settledMoney(job),
    metadata: { ...header.metadata },
    completedAt: job.closed ? new Date(job.endedAtMs).toISOString() : null,
    hasOriginalColumns: header.columns !== undefined,
    erasedAt: timeOf(erasure?.erasedAtMs),
    erasureCompletedAt: timeOf(erasure?.completedAtMs),
  }
}

const timeOf = (ms: number | undefined) => ms === undefined ? null : new Date(ms).toISOString()

/** The status in answers: a job appears as ended once it is closed and its results are readable. */
export function visibleStatus (job: Job): JobStatus {
  if (job.closed) return job.status
  switch (job.status) {
    case 'completed':
    case 'failed': return job.preflight.freshChecks > 0 ? 'verifying' : 'preparing'
    case 'cancelled': return 'cancelling'
    default: return job.status
  }
}

/** Charged and released amounts appear together with the final status. */
function settledMoney ({ closed, chargedMicros, releasedMicros }: Job) {
  return closed ? { chargedMicros, releasedMicros } : { chargedMicros: 0, releasedMicros: 0 }
}

function progressPercent (job: Job): number {
  if (job.closed) return 100
  const { totalRows } = job.preflight
  // 100 percent means that the results are readable.
  return Math.min(99, Math.floor(100 * job.counts.finishedRows / totalRows))
}
