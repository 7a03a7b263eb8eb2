import type { FastifyRequest } from 'fastify'
import { splitBatches } from '../runtime/platform/batch-writes.ts'
import { JOB_ID_PATTERN, type JobBody, type JobListBody } from '../../schemas/api/job.ts'
import type { ResultRow, ResultsQuery } from '../../schemas/api/results.ts'
import type { VerificationBody } from '../../schemas/api/verifications.ts'
import type { JobErasure } from '../jobs/erasures.ts'
import { deriveHeaderKey, JobKeyLostError, type JobKeys } from '../jobs/job-keys.ts'
import { jobBody } from '../jobs/job-view.ts'
import type { JobWait } from '../jobs/job-waiter.ts'
import type { Job, JobStatus } from '../jobs/job.ts'
import { type JobHeader, NO_HEADER, openHeader } from '../jobs/message-codec.ts'
import type { Archive } from '../jobs/results/archive.ts'
import { listJsonFields } from '../jobs/results/columns.ts'
import { unpackInlineResults } from '../jobs/results/result-blocks.ts'
import type { JobStore, JobWithManifest } from '../jobs/store.ts'
import { SMALL_LANE_ROWS } from '../topology.ts'
import { type ApiError, ApiException } from './errors.ts'
import type { IngestDeps } from './deps.ts'
import { createRowText } from './results-response.ts'
import { hasAllRows } from '../jobs/job-record.ts'

/** The format of job ids. */
export const JOB_ID = new RegExp(JOB_ID_PATTERN)

/**
 * A job of this tenant, running or closed. A text that is not a job id is not looked up.
 * @throws ApiException `job_not_found`.
 */
export async function findJob (
  deps: IngestDeps, tenant: string, id: string, readRecentJob = deps.readRecentJob
): Promise<Job> {
  const job = JOB_ID.test(id)
    ? await readRecentJob(tenant, id) ?? (await deps.findArchived(tenant, id))?.job
    : undefined
  if (job === undefined) throw new ApiException({ code: 'job_not_found' })
  return job
}

/** How long results are kept. */
export type ResultRetention = { readonly retentionMs: number }

/** A job and its results. @throws ApiException that says why they cannot be read. */
export async function findReadable (
  deps: IngestDeps, settings: ResultRetention,
  { tenant, id }: { readonly tenant: string, readonly id: string }
): Promise<JobWithManifest> {
  const job = await findJob(deps, tenant, id)
  if (!job.ended) {
    const isSmall = job.preflight.totalRows <= SMALL_LANE_ROWS
    throw new ApiException({
      code: 'job_not_completed',
      retryAfterSeconds: isSmall ? 1 : 5,
      more: { status: job.status },
    })
  }
  return await readableResults(deps, settings, await untilClosed(deps, job))
}

/** A running job with the blocks counted so far, or an ended one as in `findReadable`. */
export async function findCounted (
  deps: IngestDeps, settings: ResultRetention,
  wanted: { readonly tenant: string, readonly id: string }
): Promise<JobWithManifest> {
  const { tenant, id } = wanted
  const recorded = JOB_ID.test(id) ? await deps.readWithManifest(tenant, id) : undefined
  return recorded?.job.ended === false ? recorded : await findReadable(deps, settings, wanted)
}

/** The rows and the record of an ended job are stored in milliseconds, or ClickHouse is down. */
const STORED_WITHIN_MS = 10_000

/** The answer to what needs the stored rows or record of an ended job, if they are not. */
const NOT_STORED = { code: 'temporarily_unavailable' } as const satisfies ApiError

/**
 * An ended job once its rows and its record are stored.
 * @throws ApiException `temporarily_unavailable` if they are not in time.
 */
export async function untilClosed ({ waitForJob }: IngestDeps, job: Job): Promise<Job> {
  if (job.closed) return job
  const latest = await waitForJob({
    tenant: job.tenant, job: job.id, isDone: isClosed, timeoutMs: STORED_WITHIN_MS,
  })
  if (latest?.closed !== true) throw new ApiException(NOT_STORED)
  return latest
}

/** The results of an ended job. @throws ApiException that says why they cannot be read. */
async function readableResults (
  deps: AwaitingDeps, { retentionMs }: ResultRetention,
  { tenant, id, endedAtMs }: Job
): Promise<JobWithManifest> {
  if (endedAtMs + retentionMs <= deps.now()) throw new ApiException({ code: 'results_expired' })
  const [erasures, results] = await Promise.all([
    deps.findErasures(tenant, [id]), deps.findResults(tenant, id),
  ])
  if (erasures.has(id)) throw new ApiException({ code: 'results_erased' })
  if (results === undefined) throw new ApiException(NOT_STORED)
  return results
}

const isClosed = ({ closed }: Job) => closed

/**
 * The results of an ended job: in its record in Redis as long as that has its whole manifest, which
 * is there before ClickHouse stores it. A record that was rebuilt after a loss of Redis has none.
 */
export async function findStoredResults (
  { store, archive }: {
    readonly store: Pick<JobStore, 'readWithManifest'>, readonly archive: Pick<Archive, 'find'>
  }, tenant: string, job: string
): Promise<JobWithManifest | undefined> {
  const recorded = await store.readWithManifest(tenant, job)
  const isWhole = recorded?.job.ended === true &&
    hasAllRows(recorded.job.preflight.totalRows, recorded.manifest)
  return isWhole ? recorded : await archive.find(tenant, job)
}

/**
 * The state of a job once its status has changed, or at the end of the wait. An ended job changes
 * no more.
 */
export async function waitForChange (
  deps: IngestDeps, request: FastifyRequest, wanted: Omit<JobWait, 'isDone'>
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

export type AwaitingDeps = Pick<IngestDeps,
  'waitForJob' | 'inlineResultsOf' | 'findResults' | 'findErasures' | 'rows' | 'openHeader' | 'now'>

export type AwaitedJob = ResultRetention & {
  /** An accepted job. */
  readonly job: Job
  readonly types?: ResultsQuery['types']
  readonly timeoutMs: number
  /** Aborted when nobody waits any longer. */
  readonly signal: AbortSignal
}

/**
 * The rows of a job once it has ended; undefined if it has not ended in time. The blocks of a small
 * job come with the notification of its end; without them the rows are read once they are stored. A
 * job that was rebuilt in between ends again: then its rows are read later.
 * @throws ApiException that says why they cannot be read.
 */
export async function awaitResults (
  deps: AwaitingDeps, { retentionMs, job: accepted, types, timeoutMs, signal }: AwaitedJob
): Promise<VerificationBody | undefined> {
  const endsAt = performance.now() + timeoutMs
  const { tenant, id } = accepted
  const wait = (isDone: (job: Job) => boolean) => deps.waitForJob({
    tenant, job: id, isDone, timeoutMs: endsAt - performance.now(), signal,
  })
  const hasRows = ({ ended, closed }: Job) => closed || (ended && deps.inlineResultsOf(id) !== '')
  const ended = hasRows(accepted) ? accepted : await wait(hasRows)
  if (ended === undefined || !hasRows(ended)) return undefined
  const { job, manifest } = await readableResults(deps, { retentionMs }, ended)
  const inlineResults = unpackInlineResults(deps.inlineResultsOf(id))
  const digests = new Set(inlineResults.map(({ digest }) => digest))
  const isWhole = manifest.every(({ digest }) => digests.has(digest))
  if (!ended.closed && !isWhole) {
    const closed = await wait(isClosed)
    return closed?.closed === true
      ? await awaitResults(deps, { retentionMs, job: closed, types, timeoutMs: 0, signal })
      : undefined
  }
  if (job.endedAtMs !== ended.endedAtMs) return undefined
  const readRows = async () => {
    const rows: (readonly string[])[] = []
    const options = { limit: job.preflight.totalRows, inlineResults, withReference: true }
    for await (const some of deps.rows(job, manifest, options)) rows.push(...some)
    return rows
  }
  const [rows, header] = await Promise.all([readRows(), deps.openHeader(job)])
  const columns = listJsonFields(ended.service, header)
  const toText = createRowText(ended.service, { columns, types })
  const results = rows.map(cells => JSON.parse(`{${toText(cells)}}`) as ResultRow)
  return { ...jobBody(ended, header), preflight: ended.preflight, results }
}

export type ListFilter = {
  readonly limit: number
  /** Only jobs older than this one; '' for the newest. */
  readonly after: string
  readonly status: JobStatus | ''
  readonly service: string
  /** Only jobs created from here on. */
  readonly fromMs?: number
  /** Only jobs created before this time. */
  readonly toMs?: number
}

/**
 * A page of the jobs of a tenant, newest first: open ones from Redis, closed ones from the archive.
 * Redis is read first, because a job is in the archive before it leaves Redis: so none is missed.
 * Redis wins for a job in both.
 */
export async function listJobs (
  deps: IngestDeps, tenant: string, filter: ListFilter
): Promise<{ readonly jobs: readonly Job[], readonly hasMore: boolean }> {
  const { limit, after, status, service, fromMs = -Infinity, toMs = Infinity } = filter
  const open = await deps.openJobs(tenant)
  const archived = await deps.listArchived(tenant, {
    ...filter,
    // Redis may have another status for each open job; one more shows whether there is a next page.
    limit: limit + open.length + 1,
    before: after,
  })
  const byId = new Map([...archived, ...open].map(job => [job.id, job]))
  const wanted = [...byId.values()]
    .filter(job => after === '' || job.id < after)
    .filter(job => status === '' || job.status === status)
    .filter(job => service === '' || job.service === service)
    .filter(({ createdAtMs }) => createdAtMs >= fromMs && createdAtMs < toMs)
    .sort((a, b) => (a.id < b.id ? 1 : -1))
  return { jobs: wanted.slice(0, limit), hasMore: wanted.length > limit }
}

/** Labels are sealed, so each job is opened to be compared; this bounds the work of a request. */
const MAX_OPENED_JOBS = 500
const JOBS_PER_BATCH = 100

/**
 * A page of the jobs with these labels. It ends early after `MAX_OPENED_JOBS`: then its cursor says
 * where the search goes on, and `has_more` is true.
 */
export async function listLabeled (
  deps: IngestDeps, tenant: string,
  { labels, ...filter }: ListFilter & { readonly labels: Readonly<Record<string, string>> }
): Promise<JobListBody> {
  const data: JobBody[] = []
  const toPage = (next?: string): JobListBody =>
    ({ data, has_more: next !== undefined, next_cursor: next ?? null })
  let { after } = filter
  for (let opened = 0; opened < MAX_OPENED_JOBS; opened += JOBS_PER_BATCH) {
    const { jobs, hasMore } = await listJobs(deps, tenant, {
      ...filter, after, limit: JOBS_PER_BATCH,
    })
    for (const body of await jobBodies(deps, tenant, jobs)) {
      const isLabeled = Object.entries(labels).every(([name, value]) =>
        Object.hasOwn(body.metadata, name) && body.metadata[name] === value)
      if (!isLabeled) continue
      // The next match shows that there is a next page.
      if (data.length === filter.limit) return toPage(data.at(-1)?.id)
      data.push(body)
    }
    if (!hasMore) return toPage()
    after = jobs.at(-1)?.id ?? after
  }
  return toPage(data.length === filter.limit ? data.at(-1)?.id : after)
}

/** The JSON bodies of jobs of one tenant, in order. */
export async function jobBodies (
  deps: IngestDeps, tenant: string, jobs: readonly Job[]
): Promise<readonly JobBody[]> {
  const closed = jobs.filter(job => job.closed).map(({ id }) => id)
  const erasures = closed.length === 0
    ? new Map<string, JobErasure>()
    : await deps.findErasures(tenant, closed)
  return await Promise.all(jobs.map(async job => {
    const erasure = erasures.get(job.id)
    if (erasure !== undefined) return erasedBody(job, erasure)
    // The rows of a job that is cancelled end without another check.
    const mayWait = !job.ended && job.status !== 'cancelling' && job.preflight.freshChecks > 0
    const [header, waiting] = await Promise.all([
      deps.openHeader(job), mayWait ? deps.waitingRows(tenant, job.id) : undefined,
    ])
    return jobBody(job, header, { waiting })
  }))
}

/** The body of an erased job, whose metadata is gone. */
export function erasedBody (job: Job, erasure: JobErasure): JobBody {
  return jobBody(job, NO_HEADER, { erasure })
}

/** Jobs read at a time, so that a tenant with thousands of open jobs does not block others. */
const READ_AT_ONCE = 100

/** All open jobs of a tenant, unordered. */
export async function readOpenJobs (
  store: Pick<JobStore, 'openJobs' | 'read'>, tenant: string
): Promise<readonly Job[]> {
  const ids = (await store.openJobs(tenant)).map(({ job }) => job)
  const jobs: Job[] = []
  for (const some of splitBatches(ids, READ_AT_ONCE)) {
    const read = await Promise.all(some.map(id => store.read(tenant, id)))
    jobs.push(...read.filter(job => job !== undefined))
  }
  return jobs
}

/**
 * Labels and webhook address of a job. Both are empty for a job without its key: an erased one, of
 * which the counts are still visible, and a running one whose key was lost, which has a status.
 */
export async function openJobHeader (keys: JobKeys, job: Job): Promise<JobHeader> {
  const key = job.header.length === 0
    ? undefined
    : await keys.get(job.tenant, job.id).catch((error: unknown) => {
      if (!(error instanceof JobKeyLostError)) throw error
    })
  return key === undefined
    ? NO_HEADER
    : openHeader(deriveHeaderKey(key), { tenant: job.tenant, job: job.id }, job.header)
}
