import type { RouteOptions } from 'fastify'
import { ErrorSchema } from '../../../schemas/api/error.ts'
import {
  JobPathSchema, JobQuerySchema, JobSchema, type JobPath, type JobQuery,
} from '../../../schemas/api/job.ts'
import {
  DEFAULT_JOBS, JobListSchema, ListJobsQuerySchema, type ListJobsQuery,
} from '../../../schemas/api/list-jobs.ts'
import { findJob } from '../find-job.ts'
import { callerOf } from '../guard.ts'
import { jobBody, visibleStatus } from '../../jobs/job-view.ts'
import type { Job, JobStatus } from '../../jobs/job.ts'
import type { IngestDeps } from '../ports.ts'
import { numbersInQuery } from '../query-numbers.ts'
import { sendError } from '../response.ts'
import { waitForChange } from '../wait-for-job.ts'

/** GET /api/v1/jobs/{id}: the status and progress of a job of the caller's tenant. */
export function getJobRoute (deps: IngestDeps): RouteOptions {
  return {
    method: 'GET',
    url: '/api/v1/jobs/:id',
    config: { scope: 'jobs:read', produces: 'application/json', errors: ['job_not_found'] },
    schema: {
      operationId: 'getJob',
      summary: 'Read the status of a job',
      description: 'With `wait` the answer comes when the status changes.',
      tags: ['Jobs'],
      params: JobPathSchema,
      querystring: JobQuerySchema,
      response: { 200: JobSchema, '4xx': ErrorSchema, '5xx': ErrorSchema },
    },
    preValidation: numbersInQuery('wait'),
    handler: async (request, reply) => {
      const { id } = request.params as JobPath
      const { wait = 0 } = request.query as JobQuery
      const read = async (tenant: string, job: string) => wait === 0
        ? await deps.readJob(tenant, job)
        : await waitForChange(deps, request, { tenant, job, timeoutMs: wait * 1_000 })
      const job = await findJob({ ...deps, readJob: read }, callerOf(request).tenant, id)
      if (job === undefined) return sendError(reply, { code: 'job_not_found' })
      return reply.send(jobBody(job, await deps.openHeader(job)))
    },
  }
}

/** GET /api/v1/jobs: the jobs of the caller's tenant, newest first, a page at a time. */
export function listJobsRoute (deps: IngestDeps): RouteOptions {
  return {
    method: 'GET',
    url: '/api/v1/jobs',
    config: { scope: 'jobs:read', produces: 'application/json' },
    schema: {
      operationId: 'listJobs',
      summary: 'List jobs, newest first',
      tags: ['Jobs'],
      querystring: ListJobsQuerySchema,
      response: { 200: JobListSchema, '4xx': ErrorSchema, '5xx': ErrorSchema },
    },
    preValidation: numbersInQuery('limit'),
    handler: async (request, reply) => {
      const query = request.query as ListJobsQuery
      const { tenant } = callerOf(request)
      const filter = { limit: DEFAULT_JOBS, after: '', status: '', service: '', ...query } as const
      const { jobs, hasMore } = await listJobs(deps, tenant, filter)
      const data = await Promise.all(jobs.map(async job =>
        jobBody(job, await deps.openHeader(job))))
      const cursor = hasMore ? jobs.at(-1)?.id ?? null : null
      return reply.send({ data, has_more: hasMore, next_cursor: cursor })
    },
  }
}

export type ListFilter = {
  readonly limit: number
  /** Only jobs older than this one; '' for the newest. */
  readonly after: string
  readonly status: JobStatus | ''
  readonly service: string
}

type JobPage = { readonly jobs: readonly Job[], readonly hasMore: boolean }

/**
 * A page of the jobs of a tenant, newest first: open ones from Redis, closed ones from the archive.
 * Redis is read first, because a job is in the archive before it leaves Redis: so none is missed.
 * Redis wins for a job in both.
 */
export async function listJobs (
  deps: Pick<IngestDeps, 'openJobs' | 'listArchived'>, tenant: string, filter: ListFilter
): Promise<JobPage> {
  const { limit, after, status, service } = filter
  const open = await deps.openJobs(tenant)
  const archived = await deps.listArchived(tenant, {
    // Redis may have another status for each open job; one more shows whether there is a next page.
    limit: limit + open.length + 1, before: after, status, service,
  })
  const byId = new Map([...archived, ...open].map(job => [job.id, job]))
  const wanted = [...byId.values()]
    .filter(job => after === '' || job.id < after)
    .filter(job => status === '' || visibleStatus(job) === status)
    .filter(job => service === '' || job.service === service)
    .sort((a, b) => (a.id < b.id ? 1 : -1))
  return { jobs: wanted.slice(0, limit), hasMore: wanted.length > limit }
}

/**
 * POST /api/v1/jobs/{id}/cancel: cancels a job. Checks under way finish and are charged, the rest
 * is released. Then the job is `cancelled`, and its complete results mark the rows without a check.
 * A repeated request gets the same answer until then.
 */
export function cancelJobRoute (deps: IngestDeps): RouteOptions {
  return {
    method: 'POST',
    url: '/api/v1/jobs/:id/cancel',
    config: {
      scope: 'jobs:write',
      produces: 'application/json',
      errors: ['job_not_found', 'job_not_cancellable', 'body_too_large', 'unsupported_media_type',
        'invalid_json', 'invalid_encoding', 'invalid_request'],
    },
    schema: {
      operationId: 'cancelJob',
      summary: 'Cancel a job',
      description: 'Checks under way finish and are charged, the rest is released. The job shows ' +
        'cancelling, then cancelled. Its results are complete; rows whose check had not started ' +
        'are unknown. The request has no body.',
      tags: ['Jobs'],
      params: JobPathSchema,
      response: { 202: JobSchema, '4xx': ErrorSchema, '5xx': ErrorSchema },
    },
    handler: async (request, reply) => {
      const { id } = request.params as JobPath
      const { tenant } = callerOf(request)
      const known = await findJob(deps, tenant, id)
      if (known === undefined) return sendError(reply, { code: 'job_not_found' })
      const outcome = await deps.cancel(tenant, known.id)
      // A job that only the archive knows has ended.
      if (outcome.kind !== 'cancelling') return sendError(reply, { code: 'job_not_cancellable' })
      return reply.code(202).send(jobBody(outcome.job, await deps.openHeader(outcome.job)))
    },
  }
}
