import type { RouteOptions } from 'fastify'
import { DeliveryListSchema, type AttemptBody } from '../../../schemas/api/deliveries.ts'
import { ErrorSchema } from '../../../schemas/api/error.ts'
import { JobPathSchema, type JobPath } from '../../../schemas/api/job.ts'
import type { Attempt } from '../../jobs/delivery-history.ts'
import { findJob } from '../find-job.ts'
import { callerOf } from '../guard.ts'
import type { IngestDeps } from '../ports.ts'
import { sendError } from '../reply.ts'

/** GET /api/v1/jobs/{id}/deliveries: the webhook attempts of a job, newest first. */
export function listDeliveriesRoute (deps: IngestDeps): RouteOptions {
  return {
    method: 'GET',
    url: '/api/v1/jobs/:id/deliveries',
    config: { scope: 'jobs:read', produces: 'application/json', errors: ['job_not_found'] },
    schema: {
      operationId: 'listDeliveries',
      summary: 'List the delivery attempts of the events of a job',
      description: 'The last 90 days, newest first. A job without webhook_url has none.',
      tags: ['Jobs'],
      params: JobPathSchema,
      response: { 200: DeliveryListSchema, '4xx': ErrorSchema, '5xx': ErrorSchema },
    },
    handler: async (request, reply) => {
      const { id } = request.params as JobPath
      const { tenant } = callerOf(request)
      const job = await findJob(deps, tenant, id)
      if (job === undefined) return sendError(reply, { code: 'job_not_found' })
      const attempts = await deps.listAttempts(tenant, job.id)
      return reply.send({ data: attempts.toSorted(newestFirst).map(attemptBody) })
    },
  }
}

function newestFirst (a: Attempt, b: Attempt): number {
  return b.atMs - a.atMs || b.attempt - a.attempt
}

function attemptBody ({ event, attempt, atMs, outcome, ...rest }: Attempt): AttemptBody {
  return {
    deliveryId: event,
    attempt,
    attemptedAt: new Date(atMs).toISOString(),
    outcome,
    statusCode: rest.httpStatus === 0 ? null : rest.httpStatus,
    reason: rest.reason === '' ? null : rest.reason,
    durationMs: rest.durationMs,
  }
}
