import type { RouteOptions } from 'fastify'
import {
  type AttemptBody, DeliveryListSchema, type DeliveryPath, DeliveryPathSchema, ResentSchema,
} from '../../../schemas/api/deliveries.ts'
import { type JobPath, JobPathSchema } from '../../../schemas/api/job.ts'
import {
  DEFAULT_ATTEMPTS, EndpointDeliveriesSchema, type EndpointPath, EndpointPathSchema,
  type ListEndpointDeliveriesQuery, ListEndpointDeliveriesQuerySchema,
} from '../../../schemas/api/webhook-endpoints.ts'
import { findJob } from '../find-jobs.ts'
import { callerOf } from '../guard.ts'
import type { WebhookDelivery } from '../../webhooks/deliveries.ts'
import type { Attempt } from '../../webhooks/delivery-history.ts'
import {
  deliveryIdOf, eventIdOf, eventTypeOf, eventTypesOf, partsOfDelivery,
} from '../../webhooks/event.ts'
import type { Job } from '../../jobs/job.ts'
import type { IngestDeps } from '../deps.ts'
import { sendError } from '../response.ts'
import { findEndpoint } from './webhook-endpoints.ts'

/** GET /api/v1/jobs/{id}/deliveries: the webhook attempts of a job, newest first. */
export function listDeliveriesRoute (deps: IngestDeps): RouteOptions {
  return {
    method: 'GET',
    url: '/api/v1/jobs/:id/deliveries',
    config: {
      scope: 'jobs:read',
      yields: { '/api/v1/jobs/{id}/deliveries/{deliveryId}': '/data/0/deliveryId' },
      errors: ['job_not_found'],
      sample: {
        client: () => [
          'for (const attempt of await client.deliveries(jobId)) {',
          '  console.log(attempt.deliveryId, attempt.outcome, attempt.statusCode)',
          '}',
        ],
      },
    },
    schema: {
      operationId: 'listDeliveries',
      summary: 'List the delivery attempts of the events of a job',
      description: 'The last 90 days, newest first: to the webhook_url of the job and to the ' +
        'webhook endpoints of the organization.',
      tags: ['Jobs'],
      params: JobPathSchema,
      response: { 200: DeliveryListSchema },
    },
    handler: async (request, reply) => {
      const { id } = request.params as JobPath
      const { tenant } = callerOf(request)
      const job = await findJob(deps, tenant, id)
      if (job === undefined) return sendError(reply, { code: 'job_not_found' })
      const attempts = await deps.listAttempts(tenant, job.id)
      const newestFirst = attempts.toSorted((a, b) => b.atMs - a.atMs || b.attempt - a.attempt)
      return reply.send({ data: newestFirst.map(attemptBody) })
    },
  }
}

function attemptBody (record: Attempt): AttemptBody {
  const { event, type, job, attempt, atMs, outcome, ...rest } = record
  const { endpoint } = partsOfDelivery(event)
  return {
    deliveryId: event,
    type,
    jobId: job,
    endpointId: endpoint === '' ? null : endpoint,
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
      scope: 'webhooks:write',
      errors: ['job_not_found', 'not_found'],
      records: 'delivery.resent',
      sample: {
        client: () => ['await client.resend(jobId, deliveryId)'],
      },
    },
    schema: {
      operationId: 'resendDelivery',
      summary: 'Send an event of a job again',
      description: 'The event goes to the same address, with the same id. A delivery ' +
        'that waits for its next attempt is due immediately and keeps its retries; one that has ' +
        'ended is attempted once. Progress is not sent again. The request has no body.',
      tags: ['Jobs'],
      params: DeliveryPathSchema,
      response: { 202: ResentSchema },
    },
    handler: async (request, reply) => {
      const { id, deliveryId } = request.params as DeliveryPath
      const job = await findJob(deps, callerOf(request).tenant, id)
      if (job === undefined) return sendError(reply, { code: 'job_not_found' })
      const attempted = await findKnown(deps, job, deliveryId)
      if (attempted === undefined) {
        return sendError(reply, {
          code: 'not_found', message: 'The job has no such delivery.', param: 'deliveryId',
        })
      }
      const status = await deps.resend(attempted.delivery, attempted.lastAttempt)
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
  const delivery = await deliveryOf(deps, job, deliveryId)
  if (delivery === undefined) return undefined
  const attempts = await deps.listAttempts(job.tenant, job.id)
  const numbers = attempts.filter(({ event }) => event === deliveryId).map(it => it.attempt)
  const exists = numbers.length > 0 || await deps.findDelivery(deliveryId) !== undefined
  return exists ? { delivery, lastAttempt: Math.max(0, ...numbers) } : undefined
}

/** The delivery with this id, if the job has such an event and its destination exists. */
async function deliveryOf (
  deps: IngestDeps, job: Job, deliveryId: string
): Promise<WebhookDelivery | undefined> {
  const { event, endpoint } = partsOfDelivery(deliveryId)
  // Progress is out of date when it is sent again.
  const type = eventTypesOf(job).find(it => eventIdOf(job.id, it) === event)
  if (type === undefined) return undefined
  const common = { tenant: job.tenant, job: job.id, type }
  if (endpoint !== '') {
    const target = await findEndpoint(deps, job.tenant, endpoint)
    return target && { ...common, to: { endpoint } }
  }
  const { webhookUrl } = await deps.openHeader(job)
  const isOfJob = webhookUrl !== '' && type === eventTypeOf(job.status)
  return isOfJob ? { ...common, to: { webhookUrl } } : undefined
}

/** GET /api/v1/webhook-endpoints/{id}/deliveries: the attempts to an endpoint, by job. */
export function listEndpointDeliveriesRoute (deps: IngestDeps): RouteOptions {
  return {
    method: 'GET',
    url: '/api/v1/webhook-endpoints/:id/deliveries',
    config: {
      scope: 'jobs:read',
      yields: { '/api/v1/jobs/{id}': '/data/0/jobId' },
      errors: ['webhook_endpoint_not_found'],
      sample: {
        client: () => [
          'for await (const attempt of client.endpointDeliveries(endpointId)) {',
          '  console.log(attempt.jobId, attempt.type, attempt.outcome)',
          '}',
        ],
      },
    },
    schema: {
      operationId: 'listWebhookEndpointDeliveries',
      summary: 'List the delivery attempts to a webhook endpoint',
      description: 'The last 90 days, those of the newest jobs first. A delivery is sent again ' +
        'through its job.',
      tags: ['Webhook endpoints'],
      params: EndpointPathSchema,
      querystring: ListEndpointDeliveriesQuerySchema,
      response: { 200: EndpointDeliveriesSchema },
    },
    handler: async (request, reply) => {
      const { id } = request.params as EndpointPath
      const { limit = DEFAULT_ATTEMPTS, after } = request.query as ListEndpointDeliveriesQuery
      const { tenant } = callerOf(request)
      if (await findEndpoint(deps, tenant, id) === undefined) {
        return sendError(reply, { code: 'webhook_endpoint_not_found' })
      }
      const [job = '', event = '', attempt] = after?.split('.') ?? []
      const attempts = await deps.listEndpointAttempts(tenant, id, {
        // One more shows whether there is a next page.
        limit: limit + 1,
        ...after !== undefined && {
          after: { job, event: deliveryIdOf(event, id), attempt: Number(attempt) },
        },
      })
      const page = attempts.slice(0, limit)
      const hasMore = attempts.length > limit
      const last = page.at(-1)
      return reply.send({
        data: page.map(attemptBody),
        has_more: hasMore,
        next_cursor: hasMore && last !== undefined ? cursorOf(last) : null,
      })
    },
  }
}

/** The cursor after an attempt: its job, event and number. */
const cursorOf = ({ job, event, attempt }: Attempt): string =>
  `${job}.${partsOfDelivery(event).event}.${attempt}`
