import type { RouteOptions } from 'fastify'
import { ErrorSchema } from '../../../schemas/api/error.ts'
import { JobPathSchema, JobSchema, type JobPath } from '../../../schemas/api/job.ts'
import { findJob } from '../find-job.ts'
import { callerOf } from '../guard.ts'
import type { Deps } from '../ports.ts'
import { sendError } from '../reply.ts'
import { jobBody } from '../response.ts'

/** GET /api/v1/jobs/{id}: the status and progress of a job of the caller's tenant. */
export function getJobRoute (deps: Deps): RouteOptions {
  return {
    method: 'GET',
    url: '/api/v1/jobs/:id',
    config: { scope: 'jobs:read', produces: 'application/json', errors: ['job_not_found'] },
    schema: {
      operationId: 'getJob',
      summary: 'Read the status of a job',
      tags: ['Jobs'],
      params: JobPathSchema,
      response: { 200: JobSchema, '4xx': ErrorSchema, '5xx': ErrorSchema },
    },
    handler: async (request, reply) => {
      const { id } = request.params as JobPath
      const job = await findJob(deps, callerOf(request).tenant, id)
      if (job === undefined) return sendError(reply, { code: 'job_not_found' })
      return reply.send(jobBody(job, await deps.openHeader(job)))
    },
  }
}
