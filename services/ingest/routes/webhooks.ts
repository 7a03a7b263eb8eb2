import type { FastifyRequest, RouteOptions } from 'fastify'
import {
  type AttemptBody, type CreateEndpointBody, CreateEndpointSchema, DEFAULT_ATTEMPTS,
  DeletedEndpointSchema, DeliveryListSchema, type DeliveryPath, DeliveryPathSchema,
  type EndpointBody, EndpointDeliveriesSchema, EndpointListSchema, type EndpointPath,
  EndpointPathSchema, EndpointSchema, type EndpointWithSecretBody, EndpointWithSecretSchema,
  EXAMPLE_ENDPOINT, type ListEndpointDeliveriesQuery, ListEndpointDeliveriesQuerySchema,
  ResentSchema, type UpdateEndpointBody, UpdateEndpointSchema, WebhookKeysSchema,
} from '../../../schemas/api/webhooks.ts'
import { type JobPath, JobPathSchema } from '../../../schemas/api/job.ts'
import { withExample } from '../../../schemas/api/parts.ts'
import { describeAccess } from '../../accounts/access-log/access-log.ts'
import { parseTenant } from '../../accounts/tenant.ts'
import type { Job } from '../../jobs/job.ts'
import type { Attempt, WebhookDelivery } from '../../webhooks/deliveries.ts'
import type { EndpointSettings, WebhookEndpoint } from '../../webhooks/endpoints.ts'
import {
  toDeliveryId, deriveEventId, findEventType, listEventTypes, partsOfDelivery,
} from '../../webhooks/event.ts'
import { toAsciiUrl } from '../../webhooks/url.ts'
import type { Settings } from '../config.ts'
import type { IngestDeps } from '../deps.ts'
import { type ApiError, ApiException } from '../errors.ts'
import { findJob } from '../find-jobs.ts'
import { requireCaller } from '../guard.ts'
import { checkWebhookUrl } from '../request.ts'

const ENDPOINTS = '/api/v1/webhook-endpoints'
const NOT_FOUND: ApiError = { code: 'webhook_endpoint_not_found' }
const tags = ['Webhook endpoints']

const readId = (request: FastifyRequest) => (request.params as EndpointPath).id
const callerTenant = (request: FastifyRequest) => requireCaller(request).tenant

/** POST /api/v1/webhook-endpoints: creates an endpoint; its secret is in this response only. */
export function createEndpointRoute (deps: IngestDeps, settings: Settings): RouteOptions {
  const { maxWebhookEndpoints: max, webhooks } = settings
  return {
    method: 'POST',
    url: ENDPOINTS,
    config: {
      scope: 'webhooks:write',
      yields: { '/api/v1/webhook-endpoints/{id}': '/id' },
      errors: ['invalid_webhook_url', 'webhook_endpoints_limit'],
      records: 'webhook_endpoint.created',
      sends: { 201: ['Location'] },
      sample: {
        bodies: ['endpoint'],
        client: body => [
          `const { id, secret } = await client.createWebhookEndpoint(${body})`,
          'console.log(id, secret) // Keep the secret: it is not shown again.',
        ],
      },
    },
    schema: {
      operationId: 'createWebhookEndpoint',
      summary: 'Create a webhook endpoint',
      description: 'It receives the events of all jobs of the organization in the mode of the ' +
        'key. The secret signs them and is shown only in this answer, which takes a second: a ' +
        'job that is posted after it reports to the endpoint.',
      tags,
      body: CreateEndpointSchema,
      response: { 201: EndpointWithSecretSchema },
    },
    handler: async (request, reply) => {
      const body = request.body as CreateEndpointBody
      checkWebhookUrl(body.url, webhooks, 'url')
      const defaults = { events: ['*'] as const, description: '', enabled: true }
      const wanted = { ...defaults, ...toSettings(body), url: toAsciiUrl(body.url) }
      const tenant = callerTenant(request)
      const made = await deps.endpoints.create(tenant, wanted, max)
      if (made === undefined) {
        throw new ApiException({
          code: 'webhook_endpoints_limit',
          message: `There are ${max} webhook endpoints already. Delete one that you do not need.`,
        })
      }
      describeAccess(request, { target: made.id })
      return reply.code(201).header('location', `${ENDPOINTS}/${made.id}`)
        .send(endpointWithSecretBody(tenant, made))
    },
  }
}

/** GET /api/v1/webhook-endpoints: all endpoints of the caller's tenant, oldest first. */
export function listEndpointsRoute (deps: IngestDeps): RouteOptions {
  return {
    method: 'GET',
    url: ENDPOINTS,
    config: {
      scope: 'jobs:read',
      yields: { '/api/v1/webhook-endpoints/{id}': '/data/0/id' },
      sample: {
        client: () => [
          'for (const endpoint of await client.webhookEndpoints()) {',
          '  console.log(endpoint.id, endpoint.url, endpoint.enabled)',
          '}',
        ],
      },
    },
    schema: {
      operationId: 'listWebhookEndpoints',
      summary: 'List the webhook endpoints',
      description: 'All endpoints of the mode of the key, oldest first, without their secrets.',
      tags,
      response: { 200: EndpointListSchema },
    },
    handler: async (request, reply) => {
      const tenant = callerTenant(request)
      const list = await deps.endpoints.list(tenant)
      return reply.send({ data: list.map(endpoint => endpointBody(tenant, endpoint)) })
    },
  }
}

/** GET /api/v1/webhook-keys: the public keys that verify the events of an organization. */
export function listWebhookKeysRoute (deps: IngestDeps): RouteOptions {
  return {
    method: 'GET',
    url: '/api/v1/webhook-keys',
    config: {
      scope: 'jobs:read',
      sample: {
        client: () => [
          'const publicKeys = await client.webhookKeys()',
          'console.log(publicKeys) // "publicKey" of verifyWebhook.',
        ],
      },
    },
    schema: {
      operationId: 'listWebhookKeys',
      summary: 'List the public keys of webhooks',
      description: 'Events are also signed with a key of the organization (Ed25519), so that who ' +
        'verifies them needs no secret: `v1a` in `webhook-signature`, see Standard Webhooks.',
      tags,
      response: { 200: WebhookKeysSchema },
    },
    handler: async (request, reply) => {
      const keys = await deps.webhookKeys(requireCaller(request).org)
      return reply.send({ data: keys.map(key => ({ key })) })
    },
  }
}

/** GET /api/v1/webhook-endpoints/{id}. */
export function getEndpointRoute (deps: IngestDeps): RouteOptions {
  return {
    method: 'GET',
    url: `${ENDPOINTS}/:id`,
    config: {
      scope: 'jobs:read',
      yields: { '/api/v1/webhook-endpoints/{id}': '/id' },
      errors: ['webhook_endpoint_not_found'],
      sample: {
        client: () => [
          'const endpoint = await client.webhookEndpoint(endpointId)',
          'console.log(endpoint.url, endpoint.events)',
        ],
      },
    },
    schema: {
      operationId: 'getWebhookEndpoint',
      summary: 'Read a webhook endpoint',
      tags,
      params: EndpointPathSchema,
      response: { 200: EndpointSchema },
    },
    handler: async (request, reply) => {
      const endpoint = await findEndpoint(deps, callerTenant(request), readId(request))
      if (endpoint === undefined) throw new ApiException(NOT_FOUND)
      return reply.send(endpointBody(callerTenant(request), endpoint))
    },
  }
}

/** PATCH /api/v1/webhook-endpoints/{id}: changes settings; what is left out stays. */
export function updateEndpointRoute (
  deps: IngestDeps, { webhooks }: Settings
): RouteOptions {
  return {
    method: 'PATCH',
    url: `${ENDPOINTS}/:id`,
    config: {
      scope: 'webhooks:write',
      yields: { '/api/v1/webhook-endpoints/{id}': '/id' },
      errors: ['invalid_webhook_url', 'webhook_endpoint_not_found'],
      records: 'webhook_endpoint.changed',
      sample: {
        bodies: ['disable'],
        client: body => [
          `const endpoint = await client.updateWebhookEndpoint(endpointId, ${body})`,
          'console.log(endpoint.enabled)',
        ],
      },
    },
    schema: {
      operationId: 'updateWebhookEndpoint',
      summary: 'Change a webhook endpoint',
      description: 'What is left out stays as it is. Deliveries under way use the new settings ' +
        'within a second.',
      tags,
      params: EndpointPathSchema,
      body: UpdateEndpointSchema,
      response: {
        200: withExample(EndpointSchema, { ...EXAMPLE_ENDPOINT, enabled: false }),
      },
    },
    handler: async (request, reply) => {
      const body = request.body as UpdateEndpointBody
      checkWebhookUrl(body.url, webhooks, 'url')
      const made = await deps.endpoints.update(
        callerTenant(request), readId(request), toSettings(body))
      if (made === undefined) throw new ApiException(NOT_FOUND)
      return reply.send(endpointBody(callerTenant(request), made))
    },
  }
}

/** DELETE /api/v1/webhook-endpoints/{id}: its waiting deliveries are discarded. */
export function deleteEndpointRoute (deps: IngestDeps): RouteOptions {
  return {
    method: 'DELETE',
    url: `${ENDPOINTS}/:id`,
    config: {
      scope: 'webhooks:write',
      errors: ['webhook_endpoint_not_found'],
      records: 'webhook_endpoint.deleted',
      sample: {
        client: () => ['await client.deleteWebhookEndpoint(endpointId)'],
      },
    },
    schema: {
      operationId: 'deleteWebhookEndpoint',
      summary: 'Delete a webhook endpoint',
      description: 'Nothing is sent to it any more; waiting deliveries are discarded. The ' +
        'request has no body.',
      tags,
      params: EndpointPathSchema,
      response: { 200: DeletedEndpointSchema },
    },
    handler: async (request, reply) => {
      const gone = await deps.endpoints.remove(callerTenant(request), readId(request))
      if (gone === undefined) throw new ApiException(NOT_FOUND)
      return reply.send({ id: gone.id, deleted: true })
    },
  }
}

/** POST /api/v1/webhook-endpoints/{id}/rotate-secret: the old secret signs too for a day. */
export function rotateEndpointSecretRoute (deps: IngestDeps): RouteOptions {
  return {
    method: 'POST',
    url: `${ENDPOINTS}/:id/rotate-secret`,
    config: {
      scope: 'webhooks:write',
      errors: ['webhook_endpoint_not_found'],
      records: 'webhook_endpoint.secret_rotated',
      sample: {
        client: () => [
          'const { secret } = await client.rotateWebhookEndpointSecret(endpointId)',
          'console.log(secret)',
        ],
      },
    },
    schema: {
      operationId: 'rotateWebhookEndpointSecret',
      summary: 'Replace the secret of a webhook endpoint',
      description: 'For 24 hours events are signed with both secrets. The new one is shown only ' +
        'in this answer. The request has no body.',
      tags,
      params: EndpointPathSchema,
      response: { 200: EndpointWithSecretSchema },
    },
    handler: async (request, reply) => {
      const made = await deps.endpoints.rotate(callerTenant(request), readId(request))
      if (made === undefined) throw new ApiException(NOT_FOUND)
      return reply.send(endpointWithSecretBody(callerTenant(request), made))
    },
  }
}

/** An endpoint of the tenant by its id. */
async function findEndpoint (
  { endpoints }: IngestDeps, tenant: string, id: string
): Promise<WebhookEndpoint | undefined> {
  return (await endpoints.list(tenant)).find(endpoint => endpoint.id === id)
}

/** The settings in a body; `*` makes other event types superfluous. */
function toSettings ({ url, events, ...rest }: UpdateEndpointBody): Partial<EndpointSettings> {
  return {
    ...rest,
    ...url !== undefined && { url: toAsciiUrl(url) },
    ...events !== undefined && { events: events.includes('*') ? ['*'] : events },
  }
}

function endpointBody (tenant: string, endpoint: WebhookEndpoint): EndpointBody {
  const { id, url, events, description, enabled, createdAtMs, updatedAtMs } = endpoint
  return {
    id,
    url,
    events: [...events],
    description,
    enabled,
    livemode: parseTenant(tenant).mode === 'live',
    createdAt: new Date(createdAtMs).toISOString(),
    updatedAt: new Date(updatedAtMs).toISOString(),
  }
}

function endpointWithSecretBody (
  tenant: string, endpoint: WebhookEndpoint
): EndpointWithSecretBody {
  return { ...endpointBody(tenant, endpoint), secret: endpoint.secret }
}

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
      const { tenant } = requireCaller(request)
      const job = await findJob(deps, tenant, id)
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
      const job = await findJob(deps, requireCaller(request).tenant, id)
      const attempted = await findAttempted(deps, job, deliveryId)
      if (attempted === undefined) {
        throw new ApiException({
          code: 'not_found', message: 'The job has no such delivery.', param: 'deliveryId',
        })
      }
      const status = await deps.resend(attempted.delivery, attempted.lastAttempt)
      return reply.code(202).send({ deliveryId, status })
    },
  }
}

type AttemptedDelivery = { readonly delivery: WebhookDelivery, readonly lastAttempt: number }

/**
 * A delivery that was attempted or is queued. Others are unknown: a delivery that is created here
 * would be attempted once, without retries.
 */
async function findAttempted (
  deps: IngestDeps, job: Job, deliveryId: string
): Promise<AttemptedDelivery | undefined> {
  const delivery = await findDelivery(deps, job, deliveryId)
  if (delivery === undefined) return undefined
  const attempts = await deps.listAttempts(job.tenant, job.id)
  const numbers = attempts.filter(({ event }) => event === deliveryId).map(it => it.attempt)
  const exists = numbers.length > 0 || await deps.findDelivery(deliveryId) !== undefined
  return exists ? { delivery, lastAttempt: Math.max(0, ...numbers) } : undefined
}

/** The delivery with this id, if the job has such an event and its destination exists. */
async function findDelivery (
  deps: IngestDeps, job: Job, deliveryId: string
): Promise<WebhookDelivery | undefined> {
  const { event, endpoint } = partsOfDelivery(deliveryId)
  // Progress is out of date when it is sent again.
  const type = listEventTypes(job).find(it => deriveEventId(job.id, it) === event)
  if (type === undefined) return undefined
  const common = { tenant: job.tenant, job: job.id, type }
  if (endpoint !== '') {
    const target = await findEndpoint(deps, job.tenant, endpoint)
    return target && { ...common, to: { endpoint } }
  }
  const { webhookUrl } = await deps.openHeader(job)
  const isOfJob = webhookUrl !== '' && type === findEventType(job.status)
  return isOfJob ? { ...common, to: { webhookUrl } } : undefined
}

/** GET /api/v1/webhook-endpoints/{id}/deliveries: the attempts to an endpoint, by job. */
export function listEndpointDeliveriesRoute (deps: IngestDeps): RouteOptions {
  return {
    method: 'GET',
    url: `${ENDPOINTS}/:id/deliveries`,
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
      const { tenant } = requireCaller(request)
      if (await findEndpoint(deps, tenant, id) === undefined) {
        throw new ApiException(NOT_FOUND)
      }
      const [job = '', event = '', attempt] = after?.split('.') ?? []
      const attempts = await deps.listEndpointAttempts(tenant, id, {
        // One more shows whether there is a next page.
        limit: limit + 1,
        ...after !== undefined && {
          after: { job, event: toDeliveryId(event, id), attempt: Number(attempt) },
        },
      })
      const page = attempts.slice(0, limit)
      const hasMore = attempts.length > limit
      const last = page.at(-1)
      return reply.send({
        data: page.map(attemptBody),
        has_more: hasMore,
        next_cursor: hasMore && last !== undefined ? formatCursor(last) : null,
      })
    },
  }
}

/** The cursor after an attempt: its job, event and number. */
const formatCursor = ({ job, event, attempt }: Attempt): string =>
  `${job}.${partsOfDelivery(event).event}.${attempt}`
