import type { RouteOptions } from 'fastify'
import { ErrorSchema } from '../../../schemas/api/error.ts'
import { JobPathSchema, JobSchema, type JobPath } from '../../../schemas/api/job.ts'
import { findJob } from '../find-job.ts'
import { callerOf } from '../guard.ts'
import type { IngestDeps } from '../ports.ts'
import { sendError } from '../reply.ts'
import { jobBody } from '../response.ts'

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
