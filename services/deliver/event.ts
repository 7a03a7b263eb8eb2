import type { EventBody } from '../../schemas/api/event.ts'
import { partsOf } from '../accounts/tenant.ts'
import type { EventType } from '../jobs/events.ts'
import { eventIdOf } from '../jobs/events.ts'
import type { Job } from '../jobs/job.ts'
import { jobBody } from '../jobs/resource.ts'
import type { JobHeader } from '../jobs/wire.ts'

/** The version of the interface that payloads are written by. */
const API_VERSION = '2026-08-11'

/** The event of a closed job; the same, byte for byte as JSON, whenever it is made. */
export function eventOf (job: Job, type: EventType, header: JobHeader): EventBody {
  return {
    id: eventIdOf(job.id, type),
    type,
    api_version: API_VERSION,
    livemode: partsOf(job.tenant).mode === 'live',
    timestamp: new Date(job.endedAtMs).toISOString(),
    data: jobBody(job, header),
  }
}
