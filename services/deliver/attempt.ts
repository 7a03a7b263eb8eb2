import { LRUCache } from 'lru-cache'
import { TokenBuckets, secondsUntil } from '../runtime/platform/limits.ts'
import { failpoint } from '../runtime/platform/failpoint.ts'
import { isOutageOrFatal } from '../runtime/platform/errors.ts'
import type { Log } from '../runtime/platform/log.ts'
import type { Metrics } from '../runtime/platform/metrics.ts'
import { failSpan, inSpan, SpanKind } from '../runtime/platform/tracing.ts'
import type {
  AttemptOutcome, AttemptReason, AttemptRecord, Deliveries, DeliveryClaim,
} from '../webhooks/deliveries.ts'
import { END_EVENT_TYPES } from '../../schemas/api/webhooks.ts'
import { parseTenant } from '../accounts/tenant.ts'
import { activeSecrets, type WebhookEndpoints } from '../webhooks/endpoints.ts'
import { activeOrFirst, type WebhookSecrets } from '../webhooks/secrets.ts'
import type { JobKeys } from '../jobs/job-keys.ts'
import type { Job } from '../jobs/job.ts'
import {
  finishedTenths, partsOfDelivery, findTenth, buildEvent, signatureHeaders,
} from '../webhooks/event.ts'
import { openHeader, type JobHeader } from '../jobs/message-codec.ts'
import type { Clock } from '../runtime/platform/retry.ts'
import type { Answer, Sender, Sent } from './sender.ts'

export type AttemptDeps = {
  readonly deliveries: Pick<Deliveries, 'record' | 'release' | 'throttle' | 'drop'>
  /** A job, from Redis or from the archive. */
  readonly findJob: (tenant: string, job: string) => Promise<Job | undefined>
  readonly keys: JobKeys
  readonly secrets: Pick<WebhookSecrets, 'active' | 'show'>
  readonly signingKeys: Pick<WebhookSecrets, 'active' | 'show'>
  readonly endpoints: Pick<WebhookEndpoints, 'current'>
  /** Takes a token of the rate of the host; returns 0, or the ms to wait without one. */
  readonly takeToken: (url: string) => number
  readonly send: Sender
  readonly log: Pick<Log, 'warn'>
  readonly metrics: Pick<Metrics, 'count' | 'observe'>
  /** Redis time. */
  readonly clock: Clock
  /** Milliseconds to wait after each failed attempt but the last. */
  readonly waitsMs: readonly number[]
  /** A longer attempt makes its receiver a slow one. */
  readonly slowAfterMs: number
  /** From 0 to 1. */
  readonly random?: () => number
}

/** A closed job has readable results, so its event waits this long for the job to be closed. */
const RETRY_UNCLOSED_MS = 200
const JITTER = 0.2
const USER_AGENT = 'Verification-Jobs-Webhooks/1'

/**
 * Makes the claimed attempt and records its result. After a crash in between another process makes
 * the attempt again: receivers recognize repetitions by the id of the event. An internal error
 * counts as a failed attempt, so that it is not repeated in a tight loop. An infrastructure error
 * is not recorded: no store can record it, and the lease of the attempt expires. A key that the key
 * ring lacks is not recorded either, because it would use up all attempts before an operator adds
 * the key.
 */
export async function makeAttempt (deps: AttemptDeps, claim: DeliveryClaim): Promise<void> {
  try {
    await attempt(deps, claim)
  } catch (error) {
    if (isOutageOrFatal(error)) throw error
    const { tenant, job, delivery } = claim
    deps.log.warn({ err: error, tenant, job, event: delivery },
      'webhook attempt failed internally, retrying as scheduled')
    await record(deps, claim, { ...notSent('internal'), atMs: deps.clock.now() })
  }
}

async function attempt (deps: AttemptDeps, claim: DeliveryClaim): Promise<void> {
  const job = await deps.findJob(claim.tenant, claim.job)
  if (isObsolete(claim, job)) return await deps.deliveries.drop(claim)
  if (isOfEnd(claim) && job?.closed === false) {
    return await deps.deliveries.release(claim, RETRY_UNCLOSED_MS)
  }
  const atMs = deps.clock.now()
  const sent = await sendEvent(deps, claim, { job, atMs })
  if ('waitMs' in sent) {
    await deps.deliveries.throttle(claim, sent.waitMs)
    return deps.metrics.count('webhook_attempts_throttled_total', {})
  }
  failpoint('deliver.sent')
  await record(deps, claim, { ...sent, atMs })
  failpoint('deliver.noted')
}

const isOfEnd = ({ type }: DeliveryClaim) =>
  (END_EVENT_TYPES as readonly string[]).includes(type)

/**
 * Whether an event of progress says nothing new: the job has ended, so that its end event follows
 * or was sent already, or it has made more progress, which has an event of its own. So a slow
 * receiver gets the latest progress only, and none after the end.
 */
function isObsolete ({ type, delivery, job: id }: DeliveryClaim, job: Job | undefined): boolean {
  if (type !== 'job.progress') return false
  return job === undefined || job.ended ||
    findTenth(id, partsOfDelivery(delivery).event) < finishedTenths(job)
}

/** An attempt beyond the rate of its host. */
type Throttled = { readonly waitMs: number }

/** Records an attempt, and counts it if this process holds its lease. */
async function record (
  deps: AttemptDeps, claim: DeliveryClaim, sent: Sent & { readonly atMs: number }
): Promise<void> {
  const made = toRecord(deps, claim, sent)
  if (!await deps.deliveries.record(claim, made)) return
  const { outcome, reason, durationMs } = made.attempt
  deps.metrics.count('webhook_attempts_total', { outcome, reason })
  if (MADE_NO_REQUEST.has(reason)) return
  deps.metrics.observe('webhook_attempt_seconds', { outcome }, durationMs / 1_000)
}

/** Reasons of attempts that made no request. */
const MADE_NO_REQUEST: ReadonlySet<string> = new Set(['erased', 'endpoint_removed', 'internal'])

const notSent = (reason: AttemptReason): Sent =>
  ({ answer: { kind: 'failed', reason }, durationMs: 0 })

/** The job or the key of its webhook address no longer exists. */
const ERASED = notSent('erased')
/** The endpoint was deleted or disabled. */
const REMOVED = notSent('endpoint_removed')

async function sendEvent (
  deps: AttemptDeps, claim: DeliveryClaim,
  { job, atMs }: { readonly job: Job | undefined, readonly atMs: number }
): Promise<Sent | Throttled> {
  const key = await deps.keys.get(claim.tenant, claim.job)
  if (job === undefined || key === undefined) return ERASED
  const header = openHeader(key, { tenant: claim.tenant, job: claim.job }, job.header)
  const { event: id, endpoint } = partsOfDelivery(claim.delivery)
  const target = await findTarget(deps, claim, { endpoint, header })
  if ('answer' in target) return target
  const waitMs = deps.takeToken(target.url)
  if (waitMs > 0) return { waitMs }
  const body = JSON.stringify(buildEvent(job, { id, type: claim.type }, header))
  const timestamp = Math.floor(atMs / 1_000)
  const signingKeys = await activeOrFirst(deps.signingKeys, parseTenant(claim.tenant).orgId)
  const { secrets } = target
  const signatures = signatureHeaders({ id, timestamp, body }, { secrets, signingKeys })
  const headers = {
    'content-type': 'application/json',
    'user-agent': USER_AGENT,
    // The response body is discarded, so compression is useless.
    'accept-encoding': 'identity',
    ...signatures,
  }
  return await traced(claim, () => deps.send(target.url, { headers, body }))
}

/** Where an event goes, and the secrets that sign it. */
type Target = { readonly url: string, readonly secrets: readonly string[] }

/** The endpoint of an event, or the address of its job if it has none. */
async function findTarget (
  deps: AttemptDeps, { tenant }: DeliveryClaim,
  { endpoint: id, header }: { readonly endpoint: string, readonly header: JobHeader }
): Promise<Target | Sent> {
  if (id === '') {
    const url = header.webhookUrl
    if (url === '') return ERASED
    return { url, secrets: await activeOrFirst(deps.secrets, parseTenant(tenant).orgId) }
  }
  const endpoint = await deps.endpoints.current(tenant, id)
  if (endpoint?.enabled !== true) return REMOVED
  return { url: endpoint.url, secrets: activeSecrets(endpoint, deps.clock.now()) }
}

/** Records the attempt as a span; the receiver gets no trace headers. */
async function traced (
  { tenant, job, delivery, attempt }: DeliveryClaim, post: () => Promise<Sent>
): Promise<Sent> {
  const attributes = { 'http.request.method': 'POST', tenant, job, event: delivery, attempt }
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

/** The record of an attempt: its entry in the history, and the time of the next attempt, if any. */
function toRecord (
  deps: AttemptDeps, claim: DeliveryClaim,
  { answer, durationMs, atMs }: Sent & { readonly atMs: number }
): AttemptRecord {
  const { state, nextAtMs } = decideOutcome(deps, claim, answer)
  const { tenant, job, delivery, attempt, type } = claim
  return {
    state,
    priority: durationMs < deps.slowAfterMs ? 'quick' : 'slow',
    ...nextAtMs === undefined ? {} : { dueAtMs: nextAtMs },
    attempt: {
      tenant,
      job,
      event: delivery,
      attempt,
      type,
      atMs,
      outcome: state === 'waiting' ? 'failed' : state,
      reason: toReason(answer),
      httpStatus: answer.kind === 'answered' ? answer.status : 0,
      durationMs,
      nextAtMs,
    },
  }
}

type Outcome = {
  readonly state: 'waiting' | Exclude<AttemptOutcome, 'failed'>
  readonly nextAtMs: number | undefined
}

/** Reasons for which no attempt can succeed any more. */
const UNSENT: ReadonlySet<AttemptReason> = new Set(['erased', 'endpoint_removed'])

function decideOutcome (
  { waitsMs, clock, random }: AttemptDeps, { attempt, once }: DeliveryClaim, answer: Answer
): Outcome {
  const final = (state: Exclude<AttemptOutcome, 'failed'>) => ({ state, nextAtMs: undefined })
  if (answer.kind === 'failed' && UNSENT.has(answer.reason)) return final('discarded')
  if (isSuccess(answer)) return final('delivered')
  if (answer.kind === 'answered' && answer.status === 410) return final('gone')
  const retryAfterMs = answer.kind === 'answered' ? answer.retryAfterMs : undefined
  const options = { waitsMs, retryAfterMs, ...random === undefined ? {} : { random } }
  const nextMs = once ? undefined : nextWaitMs(attempt, options)
  if (nextMs === undefined) return final('exhausted')
  return { state: 'waiting', nextAtMs: clock.now() + nextMs }
}

/**
 * Milliseconds to wait after the failed attempt of this number (from 1), undefined after the last.
 * A jitter of 20 % spreads receivers that failed at the same time. A receiver can ask for a longer
 * wait, up to twice the scheduled one.
 */
function nextWaitMs (
  attempt: number,
  { waitsMs, retryAfterMs = 0, random = Math.random }: Pick<AttemptDeps, 'waitsMs' | 'random'> & {
    readonly retryAfterMs?: number | undefined
  }
): number | undefined {
  const scheduledMs = waitsMs[attempt - 1]
  if (scheduledMs === undefined) return undefined
  const jitteredMs = scheduledMs * (1 - JITTER + 2 * JITTER * random())
  return Math.round(Math.min(2 * scheduledMs, Math.max(jitteredMs, retryAfterMs)))
}

function toReason (answer: Answer): AttemptReason | '' {
  if (answer.kind === 'failed') return answer.reason
  if (isSuccess(answer)) return ''
  return answer.status >= 300 && answer.status < 400 ? 'redirect' : 'status'
}

function isSuccess (answer: Answer): boolean {
  return answer.kind === 'answered' && answer.status >= 200 && answer.status < 300
}

/**
 * Limits the attempts of this process to each host: a token bucket for one second of the rate. The
 * function takes a token for an attempt to a URL; it returns 0, or the ms to wait without one. The
 * waits of refused attempts are one token apart, so that they return one after the other, in their
 * order. Hosts are compared by name and port.
 */
export function createHostRate (
  perSecond: number, now: () => number = () => performance.now()
): (url: string) => number {
  const hosts = new TokenBuckets(now)
  const bucket = { capacity: perSecond, seconds: 1 }
  /** When the attempt to a host that was refused last may come again. */
  const retryAtMs = new LRUCache<string, number>({ max: MAX_HOSTS })
  return url => {
    const host = URL.parse(url)?.host ?? ''
    const { isTaken, levels: [level] } = hosts.take(host, [bucket])
    if (isTaken || level === undefined) return 0
    const nowMs = now()
    const afterLastMs = (retryAtMs.get(host) ?? 0) + 1_000 / perSecond
    const atMs = Math.max(nowMs + 1_000 * secondsUntil(level, 1), afterLastMs)
    retryAtMs.set(host, atMs)
    return Math.ceil(atMs - nowMs)
  }
}

/** More hosts at a time than these get a full bucket too early. */
const MAX_HOSTS = 10_000
