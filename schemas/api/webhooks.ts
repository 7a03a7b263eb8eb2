import { type Static, Type } from 'typebox'
import { WEB_ADDRESS_PATTERN } from './create-job.ts'
import { EXAMPLE_JOB_ID, JobSchema } from './job.ts'
import {
  API_VERSION, Count, limitParameter, Micros, pageSchema, TextOrNull, Time, withExample,
} from './parts.ts'

/** The events of a job's end, which its webhook_url receives. */
export const END_EVENT_TYPES = ['job.completed', 'job.failed', 'job.cancelled'] as const

/** All events, which webhook endpoints can subscribe to. */
export const EVENT_TYPES = [
  ...END_EVENT_TYPES, 'job.accepted', 'job.progress', 'balance.low',
] as const

export type EventType = typeof EVENT_TYPES[number]

const COMMON = {
  id: Type.String({ description: 'evt_..., the same in every try to deliver the event.' }),
  api_version: Type.Literal(API_VERSION),
  livemode: Type.Boolean({ description: 'false for the job of a test key.' }),
  timestamp: Time,
}

/** What `balance.low` reports: the reservation that took the balance below the threshold. */
const LowBalanceSchema = Type.Object({
  thresholdMicros: Micros,
  availableMicros: Count('Available balance after the reservation, USD micros.'),
  currency: Type.Literal('USD'),
  jobId: Type.String({ description: 'The job whose reservation took it below the threshold.' }),
})

/** The event of a job: what happened, and the job as its status resource shows it. No rows. */
export const JobEventSchema = Type.Object({
  ...COMMON,
  type: Type.Enum(EVENT_TYPES.filter(type => type !== 'balance.low')),
  data: JobSchema,
})

/** The event of a balance. */
export const BalanceEventSchema = Type.Object({
  ...COMMON, type: Type.Literal('balance.low'), data: LowBalanceSchema,
})
export type BalanceEventBody = Static<typeof BalanceEventSchema>

/** The body of a webhook. */
export type EventBody = Static<typeof JobEventSchema> | BalanceEventBody

const EXAMPLE_ENDPOINT_ID = 'we_01jd3v8zj7m5n2k4q6r8s0t1w3'
const EXAMPLE_SUBSCRIPTION = {
  url: 'https://hooks.customer.example/events',
  events: ['job.completed', 'balance.low'] satisfies EventType[],
}
/** 32 zero bytes: no key, as it is in the public documentation. */
const ZEROS = `${'A'.repeat(43)}=`

/** The path of one webhook endpoint. The handler rejects an unknown id. */
export const EndpointPathSchema = Type.Object({
  id: Type.String({
    description: 'The id of the endpoint: we_...', examples: [EXAMPLE_ENDPOINT_ID],
  }),
})
export type EndpointPath = Static<typeof EndpointPathSchema>

const MAX_DESCRIPTION_CHARACTERS = 500

const Url = Type.String({
  maxLength: 2_048,
  pattern: WEB_ADDRESS_PATTERN,
  description: 'An absolute URL, which must begin with https://, of a public address: it ' +
    'receives signed events.',
})
const Events = Type.Array(Type.Enum(['*', ...EVENT_TYPES]), {
  minItems: 1,
  maxItems: EVENT_TYPES.length + 1,
  uniqueItems: true,
  description: 'Event types; * stands for all, those of later releases included.',
})
const Description = Type.String({
  maxLength: MAX_DESCRIPTION_CHARACTERS, description: 'A note of yours, shown again.',
})
const Enabled = Type.Boolean({
  description: 'false: no event is sent, and none is kept for later.',
})

/** The body of POST /api/v1/webhook-endpoints. */
export const CreateEndpointSchema = Type.Object({
  url: Url,
  events: Type.Optional({ ...Events, default: ['*'] }),
  description: Type.Optional({ ...Description, default: '' }),
  enabled: Type.Optional({ ...Enabled, default: true }),
}, {
  title: 'WebhookEndpointRequest',
  additionalProperties: false,
  examples: [EXAMPLE_SUBSCRIPTION],
})
export type CreateEndpointBody = Static<typeof CreateEndpointSchema>

/** The body of PATCH /api/v1/webhook-endpoints/{id}: what is left out stays as it is. */
export const UpdateEndpointSchema = Type.Object({
  url: Type.Optional(Url),
  events: Type.Optional(Events),
  description: Type.Optional(Description),
  enabled: Type.Optional(Enabled),
}, {
  title: 'WebhookEndpointChange',
  additionalProperties: false,
  minProperties: 1,
  examples: [{ enabled: false }],
})
export type UpdateEndpointBody = Static<typeof UpdateEndpointSchema>

const FIELDS = {
  id: Type.String({ description: 'we_...' }),
  url: Url,
  events: Events,
  description: Description,
  enabled: Enabled,
  livemode: Type.Boolean({ description: 'false for an endpoint of test keys.' }),
  createdAt: Time,
  updatedAt: Time,
}

/** An endpoint, for examples. */
export const EXAMPLE_ENDPOINT = {
  id: EXAMPLE_ENDPOINT_ID,
  ...EXAMPLE_SUBSCRIPTION,
  description: '',
  enabled: true,
  livemode: true,
  createdAt: '2026-08-11T10:00:00.000Z',
  updatedAt: '2026-08-11T10:00:00.000Z',
}

/** A webhook endpoint, without its secret. */
export const EndpointSchema = Type.Object(FIELDS, {
  title: 'WebhookEndpoint', examples: [EXAMPLE_ENDPOINT],
})
export type EndpointBody = Static<typeof EndpointSchema>

/** A webhook endpoint with its secret, which is shown when it is created and when it is rotated. */
export const EndpointWithSecretSchema = Type.Object({
  ...FIELDS,
  secret: Type.String({ description: 'whsec_..., which signs events. It is not shown again.' }),
}, {
  title: 'WebhookEndpointWithSecret',
  examples: [{ ...EXAMPLE_ENDPOINT, secret: `whsec_${ZEROS}` }],
})
export type EndpointWithSecretBody = Static<typeof EndpointWithSecretSchema>

/** All webhook endpoints of the mode, oldest first. */
export const EndpointListSchema = Type.Object({ data: Type.Array(EndpointSchema) }, {
  title: 'WebhookEndpointList',
})

/** The answer to a deletion. */
export const DeletedEndpointSchema = Type.Object({
  id: Type.String({ description: 'The id of the endpoint.', examples: [EXAMPLE_ENDPOINT_ID] }),
  deleted: Type.Unsafe<true>({ type: 'boolean', description: 'Always true.', examples: [true] }),
}, { title: 'DeletedWebhookEndpoint' })

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
const EXAMPLE_ATTEMPT = {
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
const AttemptSchema = Type.Object({
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

/** Deliveries on a page. */
export const DEFAULT_ATTEMPTS = 20

/** The query of GET /api/v1/webhook-endpoints/{id}/deliveries. */
export const ListEndpointDeliveriesQuerySchema = Type.Object({
  limit: limitParameter('Attempts', DEFAULT_ATTEMPTS),
  after: Type.Optional(Type.String({
    pattern: '^job_[0-7][0-9a-hjkmnp-tv-z]{25}\\.evt_[0-9a-f]{32}\\.[1-9][0-9]{0,5}$',
    description: 'The next_cursor of the page before.',
  })),
}, { additionalProperties: false })
export type ListEndpointDeliveriesQuery = Static<typeof ListEndpointDeliveriesQuerySchema>

/** A page of attempts, those of the newest jobs first. */
export const EndpointDeliveriesSchema = pageSchema(
  withExample(AttemptSchema, {
    ...EXAMPLE_ATTEMPT,
    deliveryId: `${EXAMPLE_ATTEMPT.deliveryId}.${EXAMPLE_ENDPOINT_ID}`,
    endpointId: EXAMPLE_ENDPOINT_ID,
  }),
  { title: 'EndpointDeliveryPage' })
export type EndpointDeliveriesBody = Static<typeof EndpointDeliveriesSchema>

/** The public keys of an organization that verify its webhooks. */
export const WebhookKeysSchema = Type.Object({
  data: Type.Array(Type.Object({
    key: Type.String({
      pattern: '^whpk_[A-Za-z0-9+/]{43}=$',
      description: 'Ed25519, whpk_ and base64.',
      examples: [`whpk_${ZEROS}`],
    }),
  }), { description: 'The newest first; for a day after a rotation, both sign events.' }),
}, { title: 'WebhookKeyList' })
