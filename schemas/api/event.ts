import { Type, type Static } from 'typebox'
import { JobSchema } from './job.ts'
import { API_VERSION } from './root.ts'

export const EVENT_TYPES = ['job.completed', 'job.failed', 'job.cancelled'] as const

/** The body of a webhook: what happened, and the job as its status resource shows it. No rows. */
export const EventSchema = Type.Object({
  id: Type.String({ description: 'evt_..., the same in every try to deliver the event.' }),
  type: Type.Enum([...EVENT_TYPES]),
  api_version: Type.Literal(API_VERSION),
  livemode: Type.Boolean({ description: 'false for the job of a test key.' }),
  timestamp: Type.String({ description: 'ISO 8601, UTC, with milliseconds.' }),
  data: JobSchema,
})

/** The type of that body. */
export type EventBody = Static<typeof EventSchema>
