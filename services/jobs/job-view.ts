import type { JobBody, WaitingBody } from '../../schemas/api/job.ts'
import type { RowStatus } from '../../schemas/api/verdicts.ts'
import type { JobErasure } from './erasures.ts'
import type { Job, WaitingRows } from './job.ts'
import type { JobHeader } from './message-codec.ts'

/** The path of a job in the REST API. */
export function jobPath (jobId: string): string {
  return `/api/v1/jobs/${jobId}`
}

/** What the record of a job does not have. */
type JobState = {
  readonly erasure?: JobErasure | undefined
  readonly waiting?: WaitingRows | undefined
}

/**
 * The JSON body of a job. Status, progress, money and the time of the end change together, when its
 * last row is counted and its money is settled; until then only the counts of rows change.
 */
export function jobBody (
  job: Job, header: JobHeader, { erasure, waiting }: JobState = {}
): JobBody {
  const { preflight, counts } = job
  return {
    id: job.id,
    status: job.status,
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
    ...verdictsBody(job),
    progressPercent: progressPercent(job),
    maxQuoteMicros: preflight.maxQuoteMicros,
    chargedMicros: job.chargedMicros,
    releasedMicros: job.releasedMicros,
    metadata: { ...header.metadata },
    ...header.options && { options: [...header.options] },
    completedAt: job.ended ? new Date(job.endedAtMs).toISOString() : null,
    hasOriginalColumns: header.columns !== undefined,
    erasedAt: toIsoTime(erasure?.erasedAtMs),
    erasureCompletedAt: toIsoTime(erasure?.completedAtMs),
    deadline: toIsoTime(job.deadlineMs),
    waiting: waiting === undefined ? null : waitingBody(waiting, job),
  }
}

/**
 * The rows by verdict and by reason. Null unless they account for all rows that succeeded or
 * failed.
 */
export function verdictsBody ({ counts, verdicts }: Job): Pick<JobBody, 'verdicts' | 'reasons'> {
  const byStatus = { valid: 0, invalid: 0, risky: 0, unknown: 0 }
  const byReason: Record<string, number> = {}
  let sum = 0
  for (const [verdict, rows] of Object.entries(verdicts)) {
    const [status, reason = ''] = verdict.split(' ')
    byStatus[status as RowStatus] += rows
    byReason[reason] = (byReason[reason] ?? 0) + rows
    sum += rows
  }
  if (sum !== counts.successRecords + counts.failedRecords) return { verdicts: null, reasons: null }
  const reasons = Object.fromEntries(Object.entries(byReason).sort(([a], [b]) => a < b ? -1 : 1))
  return { verdicts: byStatus, reasons }
}

/**
 * Rows that wait for their turn at a host are due at once, time after time, so the estimate is not
 * before their end at the pace of the last minutes: the first rows of a job are those of many hosts
 * and soon answered, the last ones those of a few. Nor is it after their deadline.
 */
function waitingBody (waiting: WaitingRows, job: Job): WaitingBody {
  const { rows, reasons, dueRows, lastDueMs, earlier } = waiting
  const { createdAtMs, updatedAtMs, deadlineMs = waiting.deadlineMs ?? Infinity, counts } = job
  const answered = counts.freshRecords + counts.unknownRecords
  const isMoving = earlier !== undefined && updatedAtMs > earlier.atMs &&
    answered > earlier.answered
  const since = isMoving ? earlier : { atMs: createdAtMs, answered: 0 }
  const more = answered - since.answered
  const msPerRow = more === 0 ? 0 : (updatedAtMs - since.atMs) / more
  const endsAtMs = Math.min(Math.max(lastDueMs, updatedAtMs + dueRows * msPerRow), deadlineMs)
  return { rows, reasons, estimatedEndAt: new Date(endsAtMs).toISOString() }
}

const toIsoTime = (ms: number | undefined) => ms === undefined ? null : new Date(ms).toISOString()

function progressPercent (job: Job): number {
  if (job.ended) return 100
  const { totalRows } = job.preflight
  // 100 percent means that the job has ended; the wallet may be frozen when all rows are counted.
  return Math.min(99, Math.floor(100 * job.counts.finishedRows / totalRows))
}
