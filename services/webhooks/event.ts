import { createHmac } from 'node:crypto'
import type { Static } from 'typebox'
import type { EventBody, LowBalanceSchema } from '../../schemas/api/event.ts'
import { API_VERSION } from '../../schemas/api/root.ts'
import { partsOf } from '../accounts/tenant.ts'
import { secretBytes } from './secrets.ts'
import { signEd25519 } from '../runtime/crypto/ed25519.ts'
import type { EventType } from '../jobs/events.ts'
import type { Job } from '../jobs/job.ts'
import { jobBody } from '../jobs/job-view.ts'
import type { JobHeader } from '../jobs/message-codec.ts'
import { InconsistencyError } from '../runtime/platform/errors.ts'

/**
 * The body of an event. Equal calls give the same JSON, byte for byte: only progress shows the job
 * as it is now, any other event as it was when it happened.
 */
export function eventOf (
  job: Job, { id, type }: { readonly id: string, readonly type: EventType }, header: JobHeader
): EventBody {
  const common = {
    id, api_version: API_VERSION, livemode: partsOf(job.tenant).mode === 'live',
  } as const
  const at = (ms: number) => new Date(ms).toISOString()
  switch (type) {
    case 'balance.low':
      return { ...common, type, timestamp: at(job.createdAtMs), data: lowBalanceBody(job) }
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
  }
}

function lowBalanceBody ({ id, lowBalance }: Job): Static<typeof LowBalanceSchema> {
  if (lowBalance === undefined) {
    throw new InconsistencyError(`job ${id} has an event balance.low, but its reservation took ` +
      'the balance below no threshold; check which stage announced it')
  }
  return { ...lowBalance, currency: 'USD', jobId: id }
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
  const own = secrets.map(secret =>
    `v1=${createHmac('sha256', secret).update(`${timestamp}.${body}`).digest('hex')}`)
  const standard = [
    ...secrets.map(secret =>
      `v1,${createHmac('sha256', secretBytes(secret)).update(content).digest('base64')}`),
    ...signingKeys.map(key => `v1a,${signEd25519(secretBytes(key), content).toString('base64')}`),
  ]
  return {
    'x-service-signature': [`t=${timestamp}`, ...own].join(','),
    'webhook-id': id,
    'webhook-timestamp': String(timestamp),
    'webhook-signature': standard.join(' '),
  }
}
