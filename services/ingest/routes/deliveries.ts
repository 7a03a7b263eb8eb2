import type { RouteOptions } from 'fastify'
import {
  DeliveryListSchema, type AttemptBody, DeliveryPathSchema, ResentSchema, type DeliveryPath,
} from '../../../schemas/api/deliveries.ts'
import { ErrorSchema } from '../../../schemas/api/error.ts'
import { JobPathSchema, type JobPath } from '../../../schemas/api/job.ts'
import { findJob } from '../find-job.ts'
import { callerOf } from '../guard.ts'
import type { WebhookDelivery } from '../../jobs/deliveries.ts'
import type { Attempt } from '../../jobs/delivery-history.ts'
import { eventIdOf, eventTypeOf } from '../../jobs/events.ts'
import type { Job } from '../../jobs/job.ts'
import type { IngestDeps } from '../ports.ts'
import { sendError } from '../response.ts'

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

/**
 * POST /api/v1/jobs/{id}/deliveries/{deliveryId}/resend: sends an event again, immediately.
 * A waiting delivery keeps its retries.
 */
export function resendDeliveryRoute (deps: IngestDeps): RouteOptions {
  return {
    method: 'POST',
    url: '/api/v1/jobs/:id/deliveries/:deliveryId/resend',
    config: {
      scope: 'jobs:write',
      produces: 'application/json',
      errors: ['job_not_found', 'not_found', 'body_too_large', 'unsupported_media_type',
        'invalid_json', 'invalid_encoding', 'invalid_request'],
    },
    schema: {
      operationId: 'resendDelivery',
      summary: 'Send an event of a job again',
      description: 'The event goes to the webhook_url of the job, with the same id. A delivery ' +
        'that waits for its next attempt is due immediately and keeps its retries; one that has ' +
        'ended is attempted once. The request has no body.',
      tags: ['Jobs'],
      params: DeliveryPathSchema,
      response: { 202: ResentSchema, '4xx': ErrorSchema, '5xx': ErrorSchema },
    },
    handler: async (request, reply) => {
      const { id, deliveryId } = request.params as DeliveryPath
      const job = await findJob(deps, callerOf(request).tenant, id)
      if (job === undefined) return sendError(reply, { code: 'job_not_found' })
      const found = await findKnown(deps, job, deliveryId)
      if (found === undefined) {
        return sendError(reply, {
          code: 'not_found', message: 'The job has no such delivery.', param: 'deliveryId',
        })
      }
      const status = await deps.resend(found.delivery, found.lastAttempt)
      return reply.code(202).send({ deliveryId, status })
    },
  }
}

type Known = { readonly delivery: WebhookDelivery, readonly lastAttempt: number }

/**
 * A delivery that was attempted or is queued. Others are unknown: a delivery that is created here
 * would be attempted once, without retries.
 */
async function findKnown (
  deps: IngestDeps, job: Job, deliveryId: string
): Promise<Known | undefined> {
  const type = eventTypeOf(job.status)
  if (type === undefined || eventIdOf(job.id, type) !== deliveryId) return undefined
  const { webhookUrl } = await deps.openHeader(job)
  if (webhookUrl === '') return undefined
  const attempts = await deps.listAttempts(job.tenant, job.id)
  const numbers = attempts.filter(({ event }) => event === deliveryId).map(it => it.attempt)
  const known = numbers.length > 0 || await deps.findDelivery(deliveryId) !== undefined
  const delivery = { tenant: job.tenant, job: job.id, type, webhookUrl }
  return known ? { delivery, lastAttempt: Math.max(0, ...numbers) } : undefined
}
