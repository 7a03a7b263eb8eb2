import type { JobBody } from '../../schemas/api/job.ts'
import type { Job, JobStatus } from './job.ts'
import type { JobHeader } from './rows-seal.ts'

/** Where a job is found, relative to the host. */
export function jobPath (jobId: string): string {
  return `/api/v1/jobs/${jobId}`
}

/**
 * The status resource of a job. Status, progress, money and the time of the end change together,
 * when the job is closed; until then only the counts of rows move.
 */
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

/** What was charged and released is part of the end, so it is shown along with it. */
function settledMoney ({ closed, chargedMicros, releasedMicros }: Job) {
  return closed ? { chargedMicros, releasedMicros } : { chargedMicros: 0, releasedMicros: 0 }
}

function progressPercent (job: Job): number {
  if (job.closed) return 100
  const { totalRows } = job.preflight
  // The last percent is the end itself, which comes when the results can be read.
  return Math.min(99, Math.floor(100 * job.counts.finishedRows / totalRows))
}
