import type { RouteOptions } from 'fastify'
import { ERROR_RESPONSES } from '../../../schemas/api/error.ts'
import { withExample } from '../../../schemas/api/example.ts'
import {
  type EraseJobQuery, EraseJobQuerySchema, EXAMPLE_JOBS, type JobPath, JobPathSchema,
  type JobQuery, JobQuerySchema, JobSchema,
} from '../../../schemas/api/job.ts'
import {
  DEFAULT_JOBS, JobListSchema, type ListJobsQuery, ListJobsQuerySchema,
} from '../../../schemas/api/list-jobs.ts'
import {
  erasedBody, findJob, jobBodies, listJobs, listLabeled, NOT_STORED, untilClosed, waitForChange,
} from '../find-jobs.ts'
import { callerOf } from '../guard.ts'
import { jobBody } from '../../jobs/job-view.ts'
import type { IngestDeps } from '../ports.ts'
import { labelsInQuery, numbersInQuery, timeRange } from '../query-fields.ts'
import { sendError } from '../response.ts'
import { createTenantGate } from '../tenant-queues.ts'

/** GET /api/v1/jobs/{id}: the status and progress of a job of the caller's tenant. */
export function getJobRoute (deps: IngestDeps): RouteOptions {
  return {
    method: 'GET',
    url: '/api/v1/jobs/:id',
    config: {
      scope: 'jobs:read',
      produces: 'application/json',
      errors: ['job_not_found'],
      sample: {
        client: () => [
          'const job = await client.job(jobId)',
          'console.log(job.status, job.progressPercent)',
        ],
      },
    },
    schema: {
      operationId: 'getJob',
      summary: 'Read the status of a job',
      description: 'With `wait` the answer comes when the status changes.',
      tags: ['Jobs'],
      params: JobPathSchema,
      querystring: JobQuerySchema,
      response: { 200: withExample(JobSchema, EXAMPLE_JOBS.waiting), ...ERROR_RESPONSES },
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
      const [body] = await jobBodies(deps, job.tenant, [job])
      return reply.send(body)
    },
  }
}

/** GET /api/v1/jobs: the jobs of the caller's tenant, newest first, a page at a time. */
export function listJobsRoute (deps: IngestDeps): RouteOptions {
  const gate = createTenantGate()
  return {
    method: 'GET',
    url: '/api/v1/jobs',
    config: {
      scope: 'jobs:read',
      produces: 'application/json',
      sample: {
        query: '?limit=20&status=completed',
        client: () => [
          'for await (const job of client.jobs({ status: \'completed\' })) {',
          '  console.log(job.id, job.totalRows)',
          '}',
        ],
      },
    },
    schema: {
      operationId: 'listJobs',
      summary: 'List jobs, newest first',
      tags: ['Jobs'],
      querystring: ListJobsQuerySchema,
      response: { 200: JobListSchema, ...ERROR_RESPONSES },
    },
    preValidation: [numbersInQuery('limit'), labelsInQuery],
    handler: async (request, reply) => {
      const { metadata: labels, created_from: _from, created_to: _to, ...query } =
        request.query as ListJobsQuery
      const { tenant } = callerOf(request)
      const filter = {
        limit: DEFAULT_JOBS,
        after: '',
        status: '',
        service: '',
        ...query,
        ...timeRange(request.query as ListJobsQuery, { from: 'created_from', to: 'created_to' }),
      } as const
      if (labels !== undefined) {
        const read = () => listLabeled(deps, tenant, { ...filter, labels })
        return reply.send(await gate(tenant, read))
      }
      const { jobs, hasMore } = await listJobs(deps, tenant, filter)
      const data = await jobBodies(deps, tenant, jobs)
      const cursor = hasMore ? jobs.at(-1)?.id ?? null : null
      return reply.send({ data, has_more: hasMore, next_cursor: cursor })
    },
  }
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
      errors: ['job_not_found', 'job_not_cancellable'],
      records: 'job.cancelled',
      sample: {
        client: () => ['const job = await client.cancel(jobId)', 'console.log(job.status)'],
      },
    },
    schema: {
      operationId: 'cancelJob',
      summary: 'Cancel a job',
      description: 'Checks under way finish and are charged, the rest is released. The job shows ' +
        'cancelling, then cancelled. Its results are complete; rows whose check had not started ' +
        'are unknown. The request has no body.',
      tags: ['Jobs'],
      params: JobPathSchema,
      response: { 202: withExample(JobSchema, EXAMPLE_JOBS.cancelling), ...ERROR_RESPONSES },
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

/**
 * DELETE /api/v1/jobs/{id}: erases an ended job. Its contents are unreadable from now on; the last
 * copies of its key are deleted later. Repeated requests get the same answer.
 */
export function eraseJobRoute (deps: IngestDeps): RouteOptions {
  return {
    method: 'DELETE',
    url: '/api/v1/jobs/:id',
    config: {
      scope: 'jobs:write',
      produces: 'application/json',
      errors: ['job_not_found', 'job_not_ended'],
      records: 'job.erased',
      sample: {
        client: () => [
          'const { erasedAt } = await client.eraseJob(jobId)',
          'console.log(erasedAt)',
        ],
      },
    },
    schema: {
      operationId: 'eraseJob',
      summary: 'Erase a job that has ended',
      description: 'Destroys the key of its inputs, results and metadata: results are answered ' +
        'with 410 at once, and nobody can decrypt what is stored. Counts, money and times stay. ' +
        'The last copies of the key are deleted at erasureCompletedAt. This cannot be undone.',
      tags: ['Jobs'],
      params: JobPathSchema,
      querystring: EraseJobQuerySchema,
      response: { 202: withExample(JobSchema, EXAMPLE_JOBS.erased), ...ERROR_RESPONSES },
    },
    handler: async (request, reply) => {
      const { id } = request.params as JobPath
      const { cache } = request.query as EraseJobQuery
      const job = await findJob(deps, callerOf(request).tenant, id)
      if (job === undefined) return sendError(reply, { code: 'job_not_found' })
      if (!job.ended) return sendError(reply, { code: 'job_not_ended' })
      if (await untilClosed(deps, job) === undefined) return sendError(reply, NOT_STORED)
      const { tenant } = job
      const erasure = await deps.erase({ tenant, job: job.id, cache: cache === 'true' })
      return reply.code(202).send(erasedBody(job, erasure))
    },
  }
}
