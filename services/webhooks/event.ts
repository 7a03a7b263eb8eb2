import { createHmac, createHash } from 'node:crypto'
import type { EventBody, EventType } from '../../schemas/api/webhooks.ts'
import { API_VERSION } from '../../schemas/api/parts.ts'
import { parseTenant } from '../accounts/tenant.ts'
import { secretBytes, signText } from './secrets.ts'
import type { Job, JobStatus } from '../jobs/job.ts'
import { jobBody } from '../jobs/job-view.ts'
import type { JobHeader } from '../jobs/message-codec.ts'
import { InconsistencyError } from '../runtime/platform/errors.ts'

/**
 * The body of an event. Equal calls give the same JSON, byte for byte: only progress shows the job
 * as it is now, any other event as it was when it happened.
 */
export function buildEvent (
  job: Job, { id, type }: { readonly id: string, readonly type: EventType }, header: JobHeader
): EventBody {
  const common = {
    id, api_version: API_VERSION, livemode: parseTenant(job.tenant).mode === 'live',
  } as const
  const at = (ms: number) => new Date(ms).toISOString()
  switch (type) {
    case 'balance.low': {
      const { lowBalance } = job
      if (lowBalance === undefined) {
        throw new InconsistencyError(`job ${job.id} has an event balance.low, but its ` +
          'reservation took the balance below no threshold; check which stage emitted it')
      }
      const data = { ...lowBalance, currency: 'USD', jobId: job.id } as const
      return { ...common, type, timestamp: at(job.createdAtMs), data }
    }
    case 'job.accepted': {
      const data = jobBody(asAccepted(job), header)
      return { ...common, type, timestamp: at(job.createdAtMs), data }
    }
    case 'job.progress':
      return { ...common, type, timestamp: at(job.updatedAtMs), data: jobBody(job, header) }
    default:
      return { ...common, type, timestamp: at(job.endedAtMs), data: jobBody(job, header) }
  }
}

/** The job as it was accepted: nothing is counted yet. */
function asAccepted (job: Job): Job {
  const counts = Object.fromEntries(Object.keys(job.counts).map(name => [name, 0]))
  return {
    ...job,
    status: 'queued',
    updatedAtMs: job.createdAtMs,
    ended: false,
    chargedMicros: 0,
    releasedMicros: 0,
    counts: counts as Job['counts'],
    verdicts: {},
  }
}

/** The signed content: the id of the event, the time of the attempt and the body as it is sent. */
type Signable = {
  readonly id: string
  /** Unix seconds. */
  readonly timestamp: number
  readonly body: string
}

/** What signs an event, the newest first: both are several while one replaces the other. */
export type Signers = {
  /** `whsec_` and base64. */
  readonly secrets: readonly string[]
  /** Private keys of the organization: `whsk_` and base64. */
  readonly signingKeys: readonly string[]
}

/**
 * The headers that a receiver checks, with one signature per secret and signing key:
 * X-Service-Signature, an HMAC-SHA256 in hex over `<t>.<body>` with the whole text of the secret as
 * key; and those of Standard Webhooks 1.0.0, in base64 over `<id>.<t>.<body>`: `v1`, an HMAC-SHA256
 * with the secret's decoded bytes, and `v1a`, by Ed25519.
 */
export function signatureHeaders (
  { id, timestamp, body }: Signable, { secrets, signingKeys }: Signers
): Readonly<Record<string, string>> {
  const content = `${id}.${timestamp}.${body}`
  const plain = secrets.map(secret =>
    `v1=${createHmac('sha256', secret).update(`${timestamp}.${body}`).digest('hex')}`)
  const standard = [
    ...secrets.map(secret =>
      `v1,${createHmac('sha256', secretBytes(secret)).update(content).digest('base64')}`),
    ...signingKeys.map(key => `v1a,${signText(key, content).toString('base64')}`),
  ]
  return {
    'x-service-signature': [`t=${timestamp}`, ...plain].join(','),
    'webhook-id': id,
    'webhook-timestamp': String(timestamp),
    'webhook-signature': standard.join(' '),
  }
}

const TYPES: Partial<Record<JobStatus, EventType>> = {
  completed: 'job.completed', cancelled: 'job.cancelled', failed: 'job.failed',
}

/** The event type of a job status; undefined while the job has not ended. */
export function findEventType (status: string): EventType | undefined {
  return Object.hasOwn(TYPES, status) ? TYPES[status as JobStatus] : undefined
}

/** Progress is reported in this many steps. */
const TENTHS = 10

/**
 * The id of an event: a digest of its job and type, and of progress also of the tenth (1 to 9), so
 * that a repetition makes no second event.
 */
export function deriveEventId (job: string, type: EventType, tenth = 0): string {
  const name = tenth === 0 ? `${job}\n${type}` : `${job}\n${type}\n${tenth}`
  return `evt_${createHash('sha256').update(name).digest('hex').slice(0, 32)}`
}

/**
 * The tenths of its rows that a job has finished, 0 to 9: the tenth one is not progress but the
 * end.
 */
export function finishedTenths ({ preflight, counts }: Pick<Job, 'preflight' | 'counts'>): number {
  const { totalRows } = preflight
  if (totalRows === 0) return 0
  return Math.min(TENTHS - 1, Math.floor(TENTHS * counts.finishedRows / totalRows))
}

/** The tenth of a progress event of a job; 0 for any other event. */
export function findTenth (job: string, event: string): number {
  for (let tenth = 1; tenth < TENTHS; tenth++) {
    if (deriveEventId(job, 'job.progress', tenth) === event) return tenth
  }
  return 0
}

/**
 * The id of the delivery of an event: the id of the event for the webhook address of the job, and
 * `<event>.<endpoint>` for a webhook endpoint of the organization.
 */
export function toDeliveryId (event: string, endpoint = ''): string {
  return endpoint === '' ? event : `${event}.${endpoint}`
}

/** The event and the endpoint of a delivery; the endpoint is '' for the webhook of the job. */
export function partsOfDelivery (delivery: string): {
  readonly event: string, readonly endpoint: string,
} {
  const [event = '', endpoint = ''] = delivery.split('.')
  return { event, endpoint }
}

/**
 * Whether a delivery can be of this job: the webhook of the job gets the event of its end only, an
 * endpoint also those of the events that it has had before.
 */
export function isDeliveryOf (
  job: Job, delivery: { readonly event: string, readonly type: EventType }
): boolean {
  const { event, endpoint } = partsOfDelivery(delivery.event)
  const { type } = delivery
  if (endpoint !== '' && type === 'job.progress') return findTenth(job.id, event) > 0
  const types = endpoint === '' ? [findEventType(job.status)] : listEventTypes(job)
  return types.includes(type) && deriveEventId(job.id, type) === event
}

/** The types of the events that a job has had, but for progress. */
export function listEventTypes ({ status, lowBalance }: Job): readonly EventType[] {
  const ended = findEventType(status)
  return [
    'job.accepted',
    ...lowBalance === undefined ? [] : ['balance.low'] as const,
    ...ended === undefined ? [] : [ended],
  ]
}
