import type { FastifyRequest, RouteOptions } from 'fastify'
import { withExample } from '../../../schemas/api/parts.ts'
import {
  CreateEndpointSchema, DeletedEndpointSchema, EndpointListSchema, EndpointPathSchema,
  EndpointSchema, EndpointWithSecretSchema, EXAMPLE_ENDPOINT, UpdateEndpointSchema,
  WebhookKeysSchema,
  type CreateEndpointBody, type EndpointBody, type EndpointPath,
  type EndpointWithSecretBody, type UpdateEndpointBody,
} from '../../../schemas/api/webhook-endpoints.ts'
import { describeAccess } from '../../accounts/access-log/requests.ts'
import { partsOf } from '../../accounts/tenant.ts'
import type { EndpointSettings, WebhookEndpoint } from '../../webhooks/endpoints.ts'
import { asciiUrlOf } from '../../webhooks/url.ts'
import type { Settings } from '../config.ts'
import type { ApiError } from '../errors.ts'
import { callerOf } from '../guard.ts'
import type { IngestDeps } from '../deps.ts'
import { webhookFault } from '../request.ts'
import { sendError } from '../response.ts'

const ADDRESS = '/api/v1/webhook-endpoints'
const NOT_FOUND: ApiError = { code: 'webhook_endpoint_not_found' }
const tags = ['Webhook endpoints']

const idOf = (request: FastifyRequest) => (request.params as EndpointPath).id
const tenantOf = (request: FastifyRequest) => callerOf(request).tenant

/** POST /api/v1/webhook-endpoints: creates an endpoint; its secret is in this response only. */
export function createEndpointRoute (deps: IngestDeps, settings: Settings): RouteOptions {
  const { maxWebhookEndpoints: max, webhooks } = settings
  return {
    method: 'POST',
    url: ADDRESS,
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
      const fault = webhookFault(body.url, webhooks, 'url')
      if (fault !== undefined) return sendError(reply, fault)
      const defaults = { events: ['*'] as const, description: '', enabled: true }
      const wanted = { ...defaults, ...settingsOf(body), url: asciiUrlOf(body.url) }
      const tenant = tenantOf(request)
      const made = await deps.endpoints.create(tenant, wanted, max)
      if (made === undefined) {
        return sendError(reply, {
          code: 'webhook_endpoints_limit',
          message: `There are ${max} webhook endpoints already. Delete one that you do not need.`,
        })
      }
      describeAccess(request, { target: made.id })
      return reply.code(201).header('location', `${ADDRESS}/${made.id}`)
        .send(bodyWithSecret(tenant, made))
    },
  }
}

/** GET /api/v1/webhook-endpoints: all endpoints of the caller's tenant, oldest first. */
export function listEndpointsRoute (deps: IngestDeps): RouteOptions {
  return {
    method: 'GET',
    url: ADDRESS,
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
      const tenant = tenantOf(request)
      const list = await deps.endpoints.list(tenant)
      return reply.send({ data: list.map(endpoint => bodyOf(tenant, endpoint)) })
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
      const keys = await deps.webhookKeys(callerOf(request).org)
      return reply.send({ data: keys.map(key => ({ key })) })
    },
  }
}

/** GET /api/v1/webhook-endpoints/{id}. */
export function getEndpointRoute (deps: IngestDeps): RouteOptions {
  return {
    method: 'GET',
    url: `${ADDRESS}/:id`,
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
      const endpoint = await findEndpoint(deps, tenantOf(request), idOf(request))
      if (endpoint === undefined) return sendError(reply, NOT_FOUND)
      return reply.send(bodyOf(tenantOf(request), endpoint))
    },
  }
}

/** PATCH /api/v1/webhook-endpoints/{id}: changes settings; what is left out stays. */
export function updateEndpointRoute (
  deps: IngestDeps, { webhooks }: Settings
): RouteOptions {
  return {
    method: 'PATCH',
    url: `${ADDRESS}/:id`,
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
      const fault = webhookFault(body.url, webhooks, 'url')
      if (fault !== undefined) return sendError(reply, fault)
      const made = await deps.endpoints.update(
        tenantOf(request), idOf(request), settingsOf(body))
      if (made === undefined) return sendError(reply, NOT_FOUND)
      return reply.send(bodyOf(tenantOf(request), made))
    },
  }
}

/** DELETE /api/v1/webhook-endpoints/{id}: its waiting deliveries are discarded. */
export function deleteEndpointRoute (deps: IngestDeps): RouteOptions {
  return {
    method: 'DELETE',
    url: `${ADDRESS}/:id`,
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
      const gone = await deps.endpoints.remove(tenantOf(request), idOf(request))
      if (gone === undefined) return sendError(reply, NOT_FOUND)
      return reply.send({ id: gone.id, deleted: true })
    },
  }
}

/** POST /api/v1/webhook-endpoints/{id}/rotate-secret: the old secret signs too for a day. */
export function rotateEndpointSecretRoute (deps: IngestDeps): RouteOptions {
  return {
    method: 'POST',
    url: `${ADDRESS}/:id/rotate-secret`,
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
      const made = await deps.endpoints.rotate(tenantOf(request), idOf(request))
      if (made === undefined) return sendError(reply, NOT_FOUND)
      return reply.send(bodyWithSecret(tenantOf(request), made))
    },
  }
}

/** An endpoint of the tenant by its id. */
export async function findEndpoint (
  { endpoints }: IngestDeps, tenant: string, id: string
): Promise<WebhookEndpoint | undefined> {
  return (await endpoints.list(tenant)).find(endpoint => endpoint.id === id)
}

/** The settings in a body; `*` makes other event types superfluous. */
function settingsOf ({ url, events, ...rest }: UpdateEndpointBody): Partial<EndpointSettings> {
  return {
    ...rest,
    ...url !== undefined && { url: asciiUrlOf(url) },
    ...events !== undefined && { events: events.includes('*') ? ['*'] : events },
  }
}

function bodyOf (tenant: string, endpoint: WebhookEndpoint): EndpointBody {
  const { id, url, events, description, enabled, createdAtMs, updatedAtMs } = endpoint
  return {
    id,
    url,
    events: [...events],
    description,
    enabled,
    livemode: partsOf(tenant).mode === 'live',
    createdAt: new Date(createdAtMs).toISOString(),
    updatedAt: new Date(updatedAtMs).toISOString(),
  }
}

function bodyWithSecret (tenant: string, endpoint: WebhookEndpoint): EndpointWithSecretBody {
  return { ...bodyOf(tenant, endpoint), secret: endpoint.secret }
}
