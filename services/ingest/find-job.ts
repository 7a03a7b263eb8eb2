import type { FastifyRequest } from 'fastify'
import type { Job, ManifestEntry } from '../jobs/job.ts'
import { SMALL_LANE_ROWS } from '../topology.ts'
import type { ApiError } from './errors.ts'
import type { IngestDeps } from './ports.ts'
import type { Settings } from './config.ts'
import type { JobWait } from '../jobs/job-waiter.ts'
import type { JobBody } from '../../schemas/api/job.ts'
import type { JobErasure } from '../jobs/erasures.ts'
import { jobBody } from '../jobs/job-view.ts'

/** The format of job ids. */
export const JOB_ID = /^job_[0-7][0-9a-hjkmnp-tv-z]{25}$/

/**
 * A job of this tenant, running or closed; undefined, without a lookup, for a text that is not a
 * job id.
 */
export async function findJob (
  deps: Pick<IngestDeps, 'readJob' | 'findArchived'>, tenant: string, id: string
): Promise<Job | undefined> {
  if (!JOB_ID.test(id)) return undefined
  return await deps.readJob(tenant, id) ?? (await deps.findArchived(tenant, id))?.job
}

/** An ended job with the manifest of its results. */
export type FoundResults = { readonly job: Job, readonly manifest: readonly ManifestEntry[] }

/** How long results are kept. */
export type ResultRetention = Pick<Settings, 'retentionMs'>

type Wanted = { readonly tenant: string, readonly id: string }

/** A job whose results can be read, or the error why they cannot. */
export async function findReadable (
  deps: IngestDeps, settings: ResultRetention, { tenant, id }: Wanted
): Promise<FoundResults | ApiError> {
  const job = await findJob(deps, tenant, id)
  if (job === undefined) return { code: 'job_not_found' }
  if (!job.ended) return notCompleted(job)
  const closed = await untilClosed(deps, job)
  return closed === undefined ? NOT_STORED : await readableResults(deps, settings, closed)
}

/** The rows and the record of an ended job are stored in milliseconds, or ClickHouse is down. */
const STORED_WITHIN_MS = 10_000

/** What needs the stored rows or record of an ended job is answered with it if they are not. */
export const NOT_STORED = { code: 'temporarily_unavailable' } as const satisfies ApiError

/** An ended job once its rows and its record are stored; undefined if they are not in time. */
export async function untilClosed (
  { waitForJob }: Pick<IngestDeps, 'waitForJob'>, job: Job
): Promise<Job | undefined> {
  const isDone = ({ closed }: Job) => closed
  if (isDone(job)) return job
  const found = await waitForJob({
    tenant: job.tenant, job: job.id, isDone, timeoutMs: STORED_WITHIN_MS,
  })
  return found !== undefined && isDone(found) ? found : undefined
}

/** The results of an ended job, or the error why they cannot be read. */
export async function readableResults (
  deps: Pick<IngestDeps, 'findResults' | 'findErasures' | 'now'>, { retentionMs }: ResultRetention,
  { tenant, id, endedAtMs }: Job
): Promise<FoundResults | ApiError> {
  if (endedAtMs + retentionMs <= deps.now()) return { code: 'results_expired' }
  const [erasures, found] = await Promise.all([
    deps.findErasures(tenant, [id]), deps.findResults(tenant, id),
  ])
  if (erasures.has(id)) return { code: 'results_erased' }
  return found ?? NOT_STORED
}

function notCompleted (job: Job): ApiError {
  const isSmall = job.preflight.totalRows <= SMALL_LANE_ROWS
  return {
    code: 'job_not_completed',
    retryAfterSeconds: isSmall ? 1 : 5,
    more: { status: job.status },
  }
}

type WaitedJob = Pick<JobWait, 'tenant' | 'job' | 'timeoutMs'>

/**
 * The state of a job once its status has changed, or at the end of the wait. An ended job changes
 * no more.
 */
export async function waitForChange (
  deps: Pick<IngestDeps, 'waitForJob'>, request: FastifyRequest, wanted: WaitedJob
): Promise<Job | undefined> {
  let first: string | undefined
  const isDone = (job: Job) => {
    first ??= job.status
    return job.ended || job.status !== first
  }
  return await whileConnected(request, signal => deps.waitForJob({ ...wanted, isDone, signal }))
}

/**
 * Runs work with a signal that is aborted when the client closes its connection, even if only its
 * own half: then it may still read the answer, which it gets at once.
 */
export async function whileConnected<T> (
  { raw: { socket } }: FastifyRequest, work: (signal: AbortSignal) => Promise<T>
): Promise<T> {
  const closed = new AbortController()
  const abort = () => closed.abort()
  if (socket.readableEnded || socket.destroyed) abort()
  socket.once('end', abort).once('close', abort)
  try {
    return await work(closed.signal)
  } finally {
    socket.off('end', abort).off('close', abort)
  }
}

type Deps = Pick<IngestDeps, 'findErasures' | 'openHeader'>

/** The JSON bodies of jobs of one tenant, in order. */
export async function jobBodies (
  deps: Deps, tenant: string, jobs: readonly Job[]
): Promise<readonly JobBody[]> {
  const closed = jobs.filter(job => job.closed).map(({ id }) => id)
  const erasures = closed.length === 0
    ? new Map<string, JobErasure>()
    : await deps.findErasures(tenant, closed)
  return await Promise.all(jobs.map(async job => {
    const erasure = erasures.get(job.id)
    return erasure === undefined
      ? jobBody(job, await deps.openHeader(job))
      : erasedBody(job, erasure)
  }))
}

/** The body of an erased job, whose metadata is gone. */
export function erasedBody (job: Job, erasure: JobErasure): JobBody {
  return jobBody(job, { metadata: {}, webhookUrl: '' }, erasure)
}
