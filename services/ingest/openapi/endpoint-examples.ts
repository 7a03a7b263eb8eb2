import type { AttemptBody } from '../../../schemas/api/deliveries.ts'
import type { EventBody, EventType } from '../../../schemas/api/event.ts'
import type { JobBody } from '../../../schemas/api/job.ts'
import type {
  CreateEndpointBody, EndpointBody, UpdateEndpointBody,
} from '../../../schemas/api/webhook-endpoints.ts'
import { eventIdOf } from '../../jobs/events.ts'

const CREATED = '2026-08-11T10:00:00.000Z'

const newEndpoint: CreateEndpointBody = {
  url: 'https://hooks.customer.example/events', events: ['job.completed', 'balance.low'],
}
const endpointChange: UpdateEndpointBody = { enabled: false }

export type EndpointRequest = CreateEndpointBody | UpdateEndpointBody

/** Request bodies of webhook endpoints, by operation id and name. */
export const ENDPOINT_REQUESTS = {
  createWebhookEndpoint: { endpoint: newEndpoint },
  updateWebhookEndpoint: { disable: endpointChange },
}

const ENDPOINT_ID = 'we_01jd3v8zj7m5n2k4q6r8s0t1w3'

const endpoint: EndpointBody = {
  id: ENDPOINT_ID,
  ...newEndpoint,
  events: ['job.completed', 'balance.low'],
  description: '',
  enabled: true,
  livemode: true,
  createdAt: CREATED,
  updatedAt: CREATED,
}
/** Not a secret: it is in the public documentation. */
const endpointWithSecret = { ...endpoint, secret: `whsec_${Buffer.alloc(32).toString('base64')}` }

/** Responses of webhook endpoints, by operation id, status and media type. */
export function endpointAnswers (attempt: AttemptBody): Readonly<Record<string, unknown>> {
  return {
    'createWebhookEndpoint 201 application/json': endpointWithSecret,
    'listWebhookEndpoints 200 application/json': { data: [endpoint] },
    'getWebhookEndpoint 200 application/json': endpoint,
    'updateWebhookEndpoint 200 application/json': { ...endpoint, ...endpointChange },
    'deleteWebhookEndpoint 200 application/json': { id: ENDPOINT_ID, deleted: true },
    'rotateWebhookEndpointSecret 200 application/json': endpointWithSecret,
    'listWebhookEndpointDeliveries 200 application/json': {
      data: [{
        ...attempt, deliveryId: `${attempt.deliveryId}.${ENDPOINT_ID}`, endpointId: ENDPOINT_ID,
      }],
      has_more: false,
      next_cursor: null,
    },
  }
}

const PROGRESS_TENTH = 5

type Jobs = { readonly ended: JobBody, readonly running: JobBody }

/** An event of a type: its id, its type and its data. */
export function eventExample (
  type: EventType, { ended, running }: Jobs
): Pick<EventBody, 'id' | 'type' | 'data'> {
  const uncharged = { chargedMicros: 0, completedAt: null } as const
  const data: Readonly<Record<EventType, EventBody['data']>> = {
    'job.completed': ended,
    'job.failed': { ...ended, status: 'failed' },
    'job.cancelled': { ...ended, status: 'cancelled' },
    'job.accepted': {
      ...ended,
      ...uncharged,
      status: 'queued',
      freshRecords: 0,
      successRecords: 0,
      failedRecords: 0,
      invalidRecords: 0,
      duplicateRecords: 0,
      pendingRecords: 4,
      progressPercent: 0,
    },
    'job.progress': { ...running, ...uncharged, status: 'verifying' },
    'balance.low': {
      thresholdMicros: 1_000_000, availableMicros: 996_000, currency: 'USD', jobId: ended.id,
    },
  }
  const id = eventIdOf(ended.id, type, type === 'job.progress' ? PROGRESS_TENTH : 0)
  return { id, type, data: data[type] }
}
