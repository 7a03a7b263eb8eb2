import { EventSchema, EVENT_TYPES } from '../../../schemas/api/event.ts'
import type { Operation, Paths } from './document.ts'

const HEADERS = [
  ['X-Service-Signature', 't=<unix seconds>,v1=<hex HMAC-SHA256 of "{t}.{raw body}">: one v1 for ' +
    'each active secret. Refuse a time more than 300 seconds away, and compare in constant time.'],
  ['webhook-id', 'The id of the event, by Standard Webhooks.'],
  ['webhook-timestamp', 'Unix seconds of this try.'],
  ['webhook-signature', 'v1,<base64> of Standard Webhooks, one for each active secret.'],
] as const

/** What the service sends to the webhook address of a job, one operation an event. */
export function webhooksOf (): Paths {
  return Object.fromEntries(EVENT_TYPES.map(type => [type, { post: operationOf(type) }]))
}

function operationOf (type: typeof EVENT_TYPES[number]): Operation {
  const { properties } = EventSchema
  return {
    operationId: `event.${type}`,
    summary: `${type}: the job has come to this end`,
    description: 'A POST to webhook_url, repeated until it is answered with a 2xx within 15 ' +
      'seconds, ten tries in about 76 hours. Redirects are failures, 410 ends the tries. ' +
      'The same event may come more than once.',
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
      410: { description: 'The address takes no events any more: none is tried again.' },
    },
  }
}
