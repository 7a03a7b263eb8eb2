import type { Clock } from '../runtime/platform/clock.ts'
import { FatalError, InfrastructureError, isInfrastructure } from '../runtime/platform/errors.ts'
import { failpoint } from '../runtime/platform/failpoint.ts'
import { withTimeout, retryForever } from '../runtime/platform/retry.ts'
import type { NewJobKey, NewJobKeys } from './job-keys.ts'
import {
  newJobId, type Job, type Preflight, type QuoteSample, type Refusal, type IdempotencyClaim,
  type ClaimRequest,
} from './job.ts'
import { isSafe, notJournaled, type DecidedOutcome, type OutcomeWaiter } from './job-waiter.ts'
import { send, type ClaimedJob, type SendOptions, type Submission } from './send.ts'
import type { JobStore } from './store.ts'
import { randomUUID } from 'node:crypto'
import type { Redis } from 'ioredis'

/**
 * `replayed`: the job belongs to an earlier request with the same key. `reused`: the key belongs to
 * a different request.
 */
export type Submitted =
  | { readonly kind: 'accepted', readonly job: Job, readonly replayed: boolean }
  | { readonly kind: 'refused', readonly refusal: Refusal }
  | { readonly kind: 'reused' }

/** `expiresAtMs`: Redis time when the stored quote expires. */
export type Quoted =
  | {
    readonly kind: 'quoted'
    readonly preflight: Preflight
    readonly expiresAtMs: number
    /** As wanted by the submission; absent for a list that is too small. */
    readonly sample?: QuoteSample
  }
  | { readonly kind: 'refused', readonly refusal: Refusal }

export type SubmitterOptions = SendOptions & {
  readonly store: Pick<JobStore, 'claim' | 'refuse'>
  readonly keys: NewJobKeys
  readonly outcomes: Pick<OutcomeWaiter, 'wait'>
  /** Redis time. */
  readonly clock: Clock
  readonly acceptWithinMs?: number
  /** Liveness of this and other processes; without it, dead owners of claims are not detected. */
  readonly liveness?: Pick<Liveness, 'own' | 'isGone'>
}

/** A request was not even claimed: no data key can be made. The cause names the root key. */
export class NotSubmittedError extends InfrastructureError {
  override readonly name = 'NotSubmittedError'
}

export type Submitter = {
  /**
   * @throws NotSubmittedError when nothing was accepted, and will not be.
   * @throws when infrastructure is down or the service stops and the outcome is unknown.
   */
  readonly submit: (submission: Submission) => Promise<Submitted>
  /** Quotes a submission without a reservation and without a job. */
  readonly quote: (submission: Submission) => Promise<Quoted>
}

/** Sends the rows of a request and waits for the outcome. */
export function createSubmitter (options: SubmitterOptions): Submitter {
  const { clock, outcomes, acceptWithinMs = ACCEPT_WITHIN_MS } = options
  return {
    submit: async (submission) => {
      const { tenant, idempotencyKey, fingerprint, apiKey = '', deadlineSeconds } = submission
      const job = newJobId(clock.now())
      const dataKey = await newDataKey(options, tenant, job)
      const { wrapped: wrappedKey } = dataKey
      const request = {
        job,
        idempotencyKey,
        fingerprint,
        acceptWithinMs,
        apiKey,
        wrappedKey,
        endWithinMs: deadlineSeconds === undefined ? undefined : deadlineSeconds * 1_000,
      }
      failpoint('submit.begun')
      const claim = await claimFor(options, tenant, request)
      if (claim.kind === 'reused') return claim
      failpoint('submit.claimed')
      const outcome = claim.kind === 'new'
        ? await sendAndWait(options, submission, { job, dataKey, ...claim })
        : await outcomes.wait({ tenant, ...claim })
      failpoint('submit.decided')
      if (outcome.kind === 'refused') return outcome
      return { ...outcome, replayed: claim.kind === 'same' }
    },
    quote: (submission) => quote(options, submission),
  }
}

/** Creates the data key of a request before its claim, so that without one nothing is accepted. */
async function newDataKey (
  { keys }: SubmitterOptions, tenant: string, job: string
): Promise<NewJobKey> {
  try {
    return await keys.create(tenant, job)
  } catch (error) {
    if (!isInfrastructure(error) && !(error instanceof FatalError)) throw error
    throw new NotSubmittedError('cannot make the data key of a job', { cause: error })
  }
}

/**
 * Claims an idempotency key. If its owner is a dead process, refuses the earlier claim and claims
 * the key again. If that process is alive after all, its request ends as refused.
 */
async function claimFor (
  { store, liveness }: SubmitterOptions, tenant: string, request: ClaimRequest
): Promise<IdempotencyClaim> {
  const owned = liveness === undefined ? request : { ...request, owner: liveness.own }
  const claim = await store.claim(tenant, owned)
  if (liveness === undefined || claim.kind !== 'same' || claim.owner === '') return claim
  if (claim.owner === liveness.own || !await liveness.isGone(claim.owner)) return claim
  const { kind } = await store.refuse(tenant, claim.job, 'internal')
  return kind === 'refused' ? await store.claim(tenant, owned) : claim
}

/** How long refusals and quotes are kept; the same as REFUSAL_TTL_MS in common.lua. */
const REFUSAL_TTL_MS = 60_000

async function quote (options: SubmitterOptions, submission: Submission): Promise<Quoted> {
  const { store, clock, acceptWithinMs = ACCEPT_WITHIN_MS } = options
  const { tenant, fingerprint } = submission
  const job = newJobId(clock.now())
  const dataKey = await newDataKey(options, tenant, job)
  const claim = await store.claim(tenant, {
    job,
    idempotencyKey: '',
    fingerprint,
    acceptWithinMs,
    quoteOnly: true,
    wrappedKey: dataKey.wrapped,
  })
  if (claim.kind !== 'new') throw new Error(`the claim of a quote is ${claim.kind}, expected new`)
  const claimed = { job, dataKey, ...claim, quoteOnly: true }
  const outcome = await sendAndWait(options, { ...submission, idempotencyKey: '' }, claimed)
  if (outcome.kind === 'accepted') throw new Error(`quote ${job} was accepted as a job`)
  const { refusal } = outcome
  if (refusal.code !== 'quoted') return outcome
  const { code: _, ...quoted } = refusal
  return { kind: 'quoted', ...quoted, expiresAtMs: claim.acceptByMs + REFUSAL_TTL_MS }
}

/** Enough for 100,000 rows through a busy pipeline, and less than clients commonly wait. */
const ACCEPT_WITHIN_MS = 25_000

async function sendAndWait (
  options: SubmitterOptions, submission: Submission, claimed: ClaimedJob
): Promise<DecidedOutcome> {
  const { store, outcomes, clock } = options
  const { tenant } = submission
  const { job, acceptByMs } = claimed
  const ends = new AbortController()
  // Sends and waits concurrently: an unavailable broker must not delay the answer.
  const sending = send(options, { submission, claimed, signal: ends.signal })
  try {
    const waiting = outcomes.wait({
      tenant, job, acceptByMs, isNew: true, signal: ends.signal,
    })
    // Sending only ends the race if it fails.
    const outcome = await Promise.race([waiting, sending.then(() => waiting)])
    if (outcome.kind === 'refused') ends.abort()
    // The data key must be in Kafka before the client gets the job.
    else await withTimeout(sending, acceptByMs - clock.now())
    return outcome
  } catch (error) {
    ends.abort()
    const outcome = await store.refuse(tenant, job, 'internal')
    if (outcome.kind === 'open') throw error
    if (outcome.kind === 'accepted' && !isSafe(outcome)) throw notJournaled(job, error)
    if (outcome.kind === 'refused' && outcome.forgotten === true) throw forgotten(job, error)
    // Clients get the same answer in any case. A feed drops contacts that cannot become a job, but
    // an outage does not prove that.
    const isOutage = outcome.kind === 'refused' && isInfrastructure(error)
    if (isOutage && submission.feed !== undefined) throw error
    return outcome
  }
}

/** Redis has no record of the claim: its job may have been accepted and closed long ago. */
function forgotten (job: string, cause: unknown): InfrastructureError {
  return new InfrastructureError(`Redis has no record of job ${job} after its claim; retry with ` +
    'the same Idempotency-Key', { cause })
}

/** The heartbeat of this process, and a check of the heartbeats of others. */
export type Liveness = {
  /** The id of this process; a restarted process has another one. */
  readonly own: string
  /** Whether the heartbeat of a process has expired: it may have crashed. */
  readonly isGone: (name: string) => Promise<boolean>
  readonly stop: () => void
}

const EXPIRES_AFTER_MS = 5_000
const HEARTBEAT_MS = 1_500

const keyOf = (name: string) => `alive:${name}`

/**
 * Starts a heartbeat: a key in Redis that expires. Resolves after the first one. A process without
 * a connection to Redis counts as gone too, so recovery of its work must be safe while it runs.
 */
export async function startLiveness (
  redis: Pick<Redis, 'set' | 'exists'>, id: string = randomUUID()
): Promise<Liveness> {
  const beat = async () => { await redis.set(keyOf(id), '1', 'PX', EXPIRES_AFTER_MS) }
  await retryForever(beat, { when: isInfrastructure })
  const timer = setInterval(() => { beat().catch(() => {}) }, HEARTBEAT_MS).unref()
  return {
    own: id,
    isGone: async name => await redis.exists(keyOf(name)) === 0,
    stop: () => clearInterval(timer),
  }
}
