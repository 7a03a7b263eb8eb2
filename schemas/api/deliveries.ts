import { Type, type Static } from 'typebox'
import { EVENT_TYPES } from './event.ts'
import { EXAMPLE_JOB_ID } from './job.ts'
import { Count, TextOrNull, Time } from './parts.ts'

/** The event `job.completed` of the job of the examples. */
const EXAMPLE_EVENT_ID = 'evt_bf2032ba99d566caa831f6ece5ccb6ab'

/** The path of one delivery. The handler rejects an unknown id. */
export const DeliveryPathSchema = Type.Object({
  id: Type.String({ examples: [EXAMPLE_JOB_ID] }),
  deliveryId: Type.String({
    description: 'The id of the delivery: evt_... or evt_....we_...',
    examples: [EXAMPLE_EVENT_ID],
  }),
})
export type DeliveryPath = Static<typeof DeliveryPathSchema>

const ATTEMPT_OUTCOMES = ['delivered', 'failed', 'gone', 'exhausted', 'discarded'] as const

/** A try, for examples. */
export const EXAMPLE_ATTEMPT = {
  deliveryId: EXAMPLE_EVENT_ID,
  type: 'job.completed',
  jobId: EXAMPLE_JOB_ID,
  endpointId: null,
  attempt: 1,
  attemptedAt: '2026-08-11T10:00:02.500Z',
  outcome: 'delivered',
  statusCode: 204,
  reason: null,
  durationMs: 48,
} as const

/** One try to deliver an event: what came of it, never what was sent or to which address. */
export const AttemptSchema = Type.Object({
  deliveryId: Type.String({
    description: 'Of the webhook_url of the job: the id of the event. Of a webhook endpoint: the ' +
      'id of the event, a dot and the id of the endpoint. The same in every try.',
  }),
  type: Type.Enum([...EVENT_TYPES], { description: 'Type of the event.' }),
  jobId: Type.String({ description: 'The job that the event is about.' }),
  endpointId: TextOrNull('The webhook endpoint; null for the webhook_url of the job.'),
  attempt: Type.Integer({ minimum: 1, description: 'Number of the try, from 1.' }),
  attemptedAt: Time,
  outcome: Type.Enum([...ATTEMPT_OUTCOMES], {
    description: 'Only failed is followed by another try by itself.',
  }),
  statusCode: Type.Unsafe<number | null>({
    type: ['integer', 'null'], description: 'Of the answer; null when there was none.',
  }),
  reason: TextOrNull('A code of a closed list that may grow; null for what was delivered.'),
  durationMs: Count('How long the try took.'),
}, {
  title: 'DeliveryAttempt',
  examples: [EXAMPLE_ATTEMPT],
})
export type AttemptBody = Static<typeof AttemptSchema>

/** The tries of a job's deliveries, newest first. */
export const DeliveryListSchema = Type.Object({ data: Type.Array(AttemptSchema) }, {
  title: 'DeliveryList',
})

/** The answer to a request to send once more. */
export const ResentSchema = Type.Object({
  deliveryId: Type.String({ description: 'The id of the delivery.' }),
  status: Type.Enum(['queued', 'trying'], {
    description: 'queued: it is sent at once. trying: a try was under way already, and this ' +
      'request added none.',
  }),
}, {
  title: 'ResentDelivery',
  examples: [{ deliveryId: EXAMPLE_EVENT_ID, status: 'queued' }],
})
export type ResentBody = Static<typeof ResentSchema>
