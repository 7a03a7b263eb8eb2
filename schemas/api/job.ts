import { Type, type Static } from 'typebox'

const Count = Type.Integer({ minimum: 0 })
const Micros = Type.Integer({ minimum: 0, description: 'USD micros; 1 USD is 1,000,000.' })
const Time = Type.String({ description: 'ISO 8601, UTC, with milliseconds.' })

/** The path of one job. An id of another form is unknown, which the handler says. */
export const JobPathSchema = Type.Object({ id: Type.String() })

/** The type of that path's parameters. */
export type JobPath = Static<typeof JobPathSchema>

/** Every status a job can show, in the order it may pass them. */
export const JOB_STATES = [
  'queued', 'preparing', 'verifying', 'completed', 'cancelling', 'cancelled', 'failed',
] as const

/** The status resource of a job. */
export const JobSchema = Type.Object({
  id: Type.String(),
  status: Type.Enum([...JOB_STATES]),
  totalRows: Count,
  cacheHits: Count,
  freshRecords: Count,
  successRecords: Count,
  failedRecords: Count,
  createdAt: Time,
  updatedAt: Time,
  resultUrl: Type.String({ description: 'Host-relative path of the results.' }),
  service: Type.String(),
  invalidRows: Count,
  duplicateRows: Count,
  progressPercent: Type.Integer({ minimum: 0, maximum: 100 }),
  maxQuoteMicros: Micros,
  chargedMicros: Micros,
  releasedMicros: Micros,
  metadata: Type.Unsafe<Record<string, string>>({
    type: 'object', additionalProperties: { type: 'string' },
  }),
  completedAt: Type.Unsafe<string | null>({ type: ['string', 'null'] }),
})

/** The type of that resource. */
export type JobBody = Static<typeof JobSchema>
