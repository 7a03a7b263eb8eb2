import type { RouteOptions } from 'fastify'
import { ErrorSchema } from '../../../schemas/api/error.ts'
import {
  DEFAULT_JOBS, JobListSchema, ListJobsQuerySchema, type ListJobsQuery,
} from '../../../schemas/api/list-jobs.ts'
import { callerOf } from '../guard.ts'
import { listJobs } from '../list-jobs.ts'
import type { Deps } from '../ports.ts'
import { numbersInQuery } from '../query-numbers.ts'
import { jobBody } from '../response.ts'

/** GET /api/v1/jobs: the jobs of the caller's tenant, newest first, a page at a time. */
export function listJobsRoute (deps: Deps): RouteOptions {
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
