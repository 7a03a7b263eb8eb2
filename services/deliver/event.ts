import type { JobBody } from '../../schemas/api/job.ts'
import type { EventType } from '../jobs/events.ts'
import { eventIdOf } from '../jobs/events.ts'
import type { Job } from '../jobs/job.ts'
import { jobBody } from '../jobs/resource.ts'
import type { JobHeader } from '../jobs/wire.ts'

/** The version of the interface that payloads are written by. */
const API_VERSION = '2026-08-11'

/** What a receiver is sent: no rows, only how the job ended. */
export type Event = {
  readonly id: string
  readonly type: EventType
  readonly api_version: string
  /** ISO 8601: when the job ended. */
  readonly timestamp: string
  readonly data: JobBody
}

/** The event of a closed job; the same, byte for byte as JSON, whenever it is made. */
export function eventOf (job: Job, type: EventType, header: JobHeader): Event {
  return {
    id: eventIdOf(job.id, type),
    type,
    api_version: API_VERSION,
    timestamp: new Date(job.endedAtMs).toISOString(),
    data: jobBody(job, header),
  }
}
