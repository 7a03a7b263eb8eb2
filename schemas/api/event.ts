import { Type, type Static } from 'typebox'
import { JobSchema } from './job.ts'
import { Count, Micros, Time } from './parts.ts'
import { API_VERSION } from './root.ts'

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
