import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { AcceptedBody } from '../../schemas/api/create-job.ts'
import type { JobBody } from '../../schemas/api/job.ts'
import type { JobListBody, ListJobsQuery } from '../../schemas/api/list-jobs.ts'
import { accountOf, webhooksOf } from './account.ts'
import type { JobRequest } from './request.ts'
import { createResultReader, pagesOf, queryOf } from './results.ts'
import { bodyOf, createTransport, type Transport, type TransportOptions } from './transport.ts'

export { ApiError } from './api-error.ts'
export type { JobRequest } from './request.ts'

export type Created = Readonly<AcceptedBody>
export type JobStatusResource = Readonly<JobBody>
export type ClientOptions = TransportOptions

export type WaitOptions = {
  readonly onProgress?: (job: JobStatusResource) => void
  readonly pollEveryMs?: number
  readonly timeoutMs?: number
}

/** Jobs of that status and service; `limit` is the length of a page, not of the list. */
export type JobFilter = Omit<ListJobsQuery, 'after'>

const ENDED: readonly string[] = ['completed', 'cancelled', 'failed']
const LARGEST_PAGE = 100

/**
 * A client of the REST interface. Every method resolves with the answer of a success and throws
 * `ApiError` for every other answer. What could not be served for the moment, a lost connection
 * included, is tried again; a job is sent with an Idempotency-Key, so that it is made once.
 */
export function createClient (options: ClientOptions) {
  const send = createTransport(options)
  return {
    ...jobsOf(send), ...createResultReader(send), ...accountOf(send), ...webhooksOf(send),
  }
}

export type Client = ReturnType<typeof createClient>

function jobsOf (send: Transport) {
  const job = (id: string) => bodyOf<JobStatusResource>(send(`/jobs/${id}`))

  const jobsPage = (query: ListJobsQuery = {}) =>
    bodyOf<JobListBody>(send(`/jobs${queryOf(query)}`))

  return {
    /** Give a key of your own (UUID v4) to repeat the request after this process has ended. */
    createJob: (body: JobRequest, idempotencyKey: string = randomUUID()) =>
      bodyOf<Created>(send('/jobs', {
        method: 'POST', headers: { 'idempotency-key': idempotencyKey }, body,
      })),

    job,
    jobsPage,

    /** All jobs, newest first, read page by page as the loop asks for them. */
    jobs: (filter: JobFilter = {}): AsyncIterable<JobStatusResource> =>
      pagesOf(async cursor => await jobsPage({ limit: LARGEST_PAGE, ...filter, ...cursor }),
        'after'),

    /** Ends a job early: checks under way are finished and charged, the rest is released. */
    cancel: (id: string) =>
      bodyOf<JobStatusResource>(send(`/jobs/${id}/cancel`, { method: 'POST' })),

    /** Polls until the job has ended; throws when that takes longer than `timeoutMs` (10 min). */
    waitForEnd: (id: string, options: WaitOptions = {}) => untilEnded(() => job(id), options),
  }
}

async function untilEnded (
  read: () => Promise<JobStatusResource>, options: WaitOptions
): Promise<JobStatusResource> {
  const { onProgress = () => {}, pollEveryMs = 100, timeoutMs = 600_000 } = options
  const giveUpAt = Date.now() + timeoutMs
  for (;;) {
    const now = await read()
    onProgress(now)
    if (ENDED.includes(now.status)) return now
    if (Date.now() > giveUpAt) {
      throw new Error(`${now.id} is still ${now.status} after ${timeoutMs} ms`)
    }
    await delay(pollEveryMs)
  }
}
