import type { RouteOptions } from 'fastify'
import { ErrorSchema } from '../../../schemas/api/error.ts'
import {
  JobPathSchema, ResultsQuerySchema, type JobPath,
} from '../../../schemas/api/job.ts'
import { SMALL_LANE_ROWS } from '../../topology.ts'
import type { Job } from '../../jobs/job.ts'
import type { Fault } from '../errors.ts'
import { findJob, findResults } from '../find-job.ts'
import { callerOf } from '../guard.ts'
import type { Parts, Rules } from '../ports.ts'
import { sendFault } from '../reply.ts'
import { visibleStatus } from '../response.ts'
import { sendResults } from '../results-file.ts'

/** GET /api/v1/jobs/{id}/results: the result file of a job that has come to its end, as CSV. */
export function getResultsRoute (parts: Parts, rules: Rules): RouteOptions {
  return {
    method: 'GET',
    url: '/api/v1/jobs/:id/results',
    config: { scope: 'jobs:read', produces: 'text/csv' },
    schema: {
      params: JobPathSchema,
      querystring: ResultsQuerySchema,
      response: { '4xx': ErrorSchema, '5xx': ErrorSchema },
    },
    handler: async (request, reply) => {
      const { id } = request.params as JobPath
      const { tenant } = callerOf(request)
      const job = await findJob(parts, tenant, id)
      if (job === undefined) return sendFault(reply, { code: 'job_not_found' })
      if (!job.closed) return sendFault(reply, notCompleted(job))
      if (job.endedAtMs + rules.retentionMs <= parts.now()) {
        return sendFault(reply, { code: 'results_expired' })
      }
      const results = await findResults(parts, tenant, id)
      if (results === undefined) return sendFault(reply, { code: 'temporarily_unavailable' })
      return sendResults(parts, results, { request, reply })
    },
  }
}

function notCompleted (job: Job): Fault {
  const isSmall = job.preflight.totalRows <= SMALL_LANE_ROWS
  return {
    code: 'job_not_completed',
    retryAfterSeconds: isSmall ? 1 : 5,
    more: { status: visibleStatus(job) },
  }
}
