import type { WebhookSecrets } from '../accounts/webhook-secrets.ts'
import { partsOf } from '../accounts/tenant.ts'
import type { Claim, Deliveries } from '../jobs/deliveries.ts'
import type { Job } from '../jobs/job.ts'
import type { JobKeys } from '../jobs/job-keys.ts'
import { openHeader } from '../jobs/wire.ts'
import { failpoint } from '../lib/failpoint.ts'
import { failSpan, inSpan, SpanKind } from '../lib/tracing.ts'
import type { Sender, Sent } from './attempt.ts'
import { eventOf } from './event.ts'
import { noteOf, type NoteParts } from './note.ts'
import { signatureHeaders } from './sign.ts'

export type AttemptParts = NoteParts & {
  readonly deliveries: Pick<Deliveries, 'note' | 'release'>
  /** A job that ended, whether Redis still has it or only the archive. */
  readonly findJob: (tenant: string, job: string) => Promise<Job | undefined>
  readonly keys: Pick<JobKeys, 'get'>
  readonly secrets: Pick<WebhookSecrets, 'active' | 'show'>
  readonly send: Sender
}

/** An event is sent once its job is closed, when the results it speaks of can be read. */
const CLOSED_SOON_MS = 200

const USER_AGENT = 'Verification-Jobs-Webhooks/1'

/**
 * Makes the attempt that was claimed and notes what came of it. Whoever dies on the way has noted
 * nothing, and the attempt is made again: receivers tell repetitions by the event's id.
 */
export async function makeAttempt (parts: AttemptParts, claim: Claim): Promise<void> {
  const job = await parts.findJob(claim.tenant, claim.job)
  if (job?.closed === false) return await parts.deliveries.release(claim, CLOSED_SOON_MS)
  const atMs = parts.clock.now()
  const made = await attemptFor(parts, claim, { job, atMs })
  failpoint('deliver.sent')
  await parts.deliveries.note(claim, noteOf(parts, claim, { ...made, atMs }))
  failpoint('deliver.noted')
}

/** Notes that an attempt came to nothing for a reason of our own; others follow as ever. */
export async function noteFault (parts: AttemptParts, claim: Claim): Promise<void> {
  const made = { answer: { kind: 'failed', reason: 'internal' }, durationMs: 0 } as const
  await parts.deliveries.note(claim,
    noteOf(parts, claim, { ...made, atMs: parts.clock.now() }))
}

async function attemptFor (
  { keys, secrets, send }: AttemptParts, claim: Claim,
  { job, atMs }: { readonly job: Job | undefined, readonly atMs: number }
): Promise<Sent> {
  const key = await keys.get(claim.tenant, claim.job)
  if (job === undefined || key === undefined) return ERASED
  const header = openHeader(key, { tenant: claim.tenant, job: claim.job }, job.header)
  if (header.webhookUrl === '') return ERASED
  const event = eventOf(job, claim.type, header)
  const body = JSON.stringify(event)
  const timestamp = Math.floor(atMs / 1_000)
  const signatures = signatureHeaders({ id: event.id, timestamp, body },
    await activeSecrets(secrets, partsOf(claim.tenant).orgId))
  const headers = {
    'content-type': 'application/json',
    'user-agent': USER_AGENT,
    // What is thrown away needs no unpacking.
    'accept-encoding': 'identity',
    ...signatures,
  }
  return await traced(claim, () => send(header.webhookUrl, { headers, body }))
}

/** A span of the attempt itself, with what came of it; the receiver is told nothing of it. */
async function traced (
  { tenant, job, event, attempt }: Claim, post: () => Promise<Sent>
): Promise<Sent> {
  const attributes = { 'http.request.method': 'POST', tenant, job, event, attempt }
  const plan = { name: 'webhook attempt', kind: SpanKind.CLIENT, attributes }
  return await inSpan(plan, async span => {
    const sent = await post()
    const { answer } = sent
    if (answer.kind === 'failed' && span !== undefined) failSpan(span, answer.reason)
    if (answer.kind !== 'answered' || span === undefined) return sent
    span.setAttribute('http.response.status_code', answer.status)
    if (answer.status >= 300) failSpan(span, String(answer.status))
    return sent
  })
}

/** An organization that never looked at its secret has none yet; it may look at it any time. */
async function activeSecrets (
  secrets: AttemptParts['secrets'], orgId: string
): Promise<readonly string[]> {
  const active = await secrets.active(orgId)
  if (active.length > 0) return active
  await secrets.show(orgId)
  return await secrets.active(orgId)
}

/** The job, or the key to its address, is gone: there is nobody to send to. */
const ERASED: Sent = { answer: { kind: 'failed', reason: 'erased' }, durationMs: 0 }
