import { EventSchema, EVENT_TYPES } from '../../../schemas/api/event.ts'
import type { Operation, Paths } from './document.ts'

const HEADERS = [
  ['X-Service-Signature', 't=<unix seconds>,v1=<hex HMAC-SHA256 of "{t}.{raw body}">: one v1 per ' +
    'active secret. Reject times more than 300 seconds away, and compare in constant time.'],
  ['webhook-id', 'The id of the event, see Standard Webhooks.'],
  ['webhook-timestamp', 'Unix seconds of this attempt.'],
  ['webhook-signature', 'v1,<base64>, one per active secret, see Standard Webhooks.'],
] as const

/** The webhook events, one operation per event type. */
export function webhooksOf (): Paths {
  return Object.fromEntries(EVENT_TYPES.map(type => [type, { post: operationOf(type) }]))
}

function operationOf (type: typeof EVENT_TYPES[number]): Operation {
  const { properties } = EventSchema
  return {
    operationId: `event.${type}`,
    summary: `${type}: the job has ended`,
    description: 'A POST to webhook_url, retried until it is answered with a 2xx within 15 ' +
      'seconds: ten attempts in about 76 hours. Redirects are failures, 410 ends the ' +
      'attempts. The same event may arrive more than once.',
    tags: ['Events'],
    parameters: HEADERS.map(([name, description]) => ({
      name, in: 'header', required: true, description, schema: { type: 'string' },
    })),
    requestBody: {
      required: true,
      content: {
        'application/json': {
          schema: { ...EventSchema, properties: { ...properties, type: { const: type } } },
        },
      },
    },
    responses: {
      '2XX': { description: 'Received.' },
      410: { description: 'The address accepts no more events: no retries follow.' },
    },
  }
}
