import { createHmac } from 'node:crypto'
import type { EventBody } from '../../schemas/api/event.ts'
import { API_VERSION } from '../../schemas/api/root.ts'
import { partsOf } from '../accounts/tenant.ts'
import { eventIdOf, type EventType } from '../jobs/events.ts'
import type { Job } from '../jobs/job.ts'
import { jobBody } from '../jobs/job-view.ts'
import type { JobHeader } from '../jobs/message-codec.ts'

/** The event of a closed job; equal calls give the same JSON, byte for byte. */
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

/** The signed content: the id of the event, the time of the attempt and the body as it is sent. */
type Signable = {
  readonly id: string
  /** Unix seconds. */
  readonly timestamp: number
  readonly body: string
}

const SECRET_PREFIX = 'whsec_'

/**
 * The headers that a receiver checks, with one signature per active secret (`whsec_` and base64):
 * X-Service-Signature, an HMAC-SHA256 in hex over `<t>.<body>` with the whole text of the secret as
 * key; and those of Standard Webhooks 1.0.0, in base64 over `<id>.<t>.<body>` with the secret's
 * decoded bytes.
 */
export function signatureHeaders (
  { id, timestamp, body }: Signable, secrets: readonly string[]
): Readonly<Record<string, string>> {
  const own = secrets.map(secret =>
    `v1=${createHmac('sha256', secret).update(`${timestamp}.${body}`).digest('hex')}`)
  const standard = secrets.map(secret => {
    const key = Buffer.from(secret.slice(SECRET_PREFIX.length), 'base64')
    return `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')}`
  })
  return {
    'x-service-signature': [`t=${timestamp}`, ...own].join(','),
    'webhook-id': id,
    'webhook-timestamp': String(timestamp),
    'webhook-signature': standard.join(' '),
  }
}
