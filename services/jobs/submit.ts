import type { Clock } from '../platform/clock.ts'
import { InfrastructureError, isInfrastructure } from '../platform/errors.ts'
import { failpoint } from '../platform/failpoint.ts'
import type { Liveness } from '../platform/liveness.ts'
import { withTimeout } from '../platform/retry.ts'
import { newJobId, type Job, type Preflight, type Refusal } from './job.ts'
import { isSafe, notJournaled, type Decided, type OutcomeWaiter } from './outcome-waiter.ts'
import { send, type Claimed, type SendOptions, type Submission } from './send.ts'
import type { Claim, ClaimRequest, JobStore } from './store.ts'

export type { Submission } from './send.ts'

/**
 * `replayed`: the job belongs to an earlier request with the same key. `reused`: the key belongs to
 * a different request.
 */
export type Submitted =
  | { readonly kind: 'accepted', readonly job: Job, readonly replayed: boolean }
  | { readonly kind: 'refused', readonly refusal: Refusal }
  | { readonly kind: 'reused' }

/** `forgetAtMs`: until when the answer is kept, Redis time. */
export type Quoted =
  | { readonly kind: 'quoted', readonly preflight: Preflight, readonly forgetAtMs: number }
  | { readonly kind: 'refused', readonly refusal: Refusal }

export type SubmitterOptions = SendOptions & {
  readonly store: Pick<JobStore, 'claim' | 'refuse' | 'eraseKey'>
  readonly outcomes: Pick<OutcomeWaiter, 'wait'>
  /** Redis time. */
  readonly clock: Clock
  readonly acceptWithinMs?: number
  /** This process among those that share the keys of requests; without it nobody's end is seen. */
  readonly presence?: Pick<Liveness, 'own' | 'isGone'>
}

export type Submitter = {
  /** @throws when infrastructure is away or the service stops, and the outcome is not known. */
  readonly submit: (submission: Submission) => Promise<Submitted>
  /** What a job of it would be quoted: nothing is reserved and no job comes of it. */
  readonly quote: (submission: Submission) => Promise<Quoted>
}

/** Brings a request's rows on their way and waits for what becomes of them. */
export function createSubmitter (options: SubmitterOptions): Submitter {
  const { clock, outcomes, acceptWithinMs = ACCEPT_WITHIN_MS } = options
  return {
    submit: async (submission) => {
      const { tenant, idempotencyKey, fingerprint } = submission
      const own = newJobId(clock.now())
      const request = { job: own, idempotencyKey, fingerprint, acceptWithinMs }
      failpoint('submit.begun')
      const claim = await claimFor(options, tenant, request)
      if (claim.kind === 'reused') return claim
      failpoint('submit.claimed')
      const outcome = claim.kind === 'new'
        ? await sendAndWait(options, submission, { job: own, ...claim })
        : await outcomes.wait({ tenant, ...claim })
      failpoint('submit.decided')
      if (outcome.kind === 'refused') return outcome
      return { ...outcome, replayed: claim.kind === 'same' }
    },
    quote: (submission) => quote(options, submission),
  }
}

/**
 * Claims a key. If a process has it that ended before its rows were on their way, nobody waits for
 * them: no job can come of that claim any more, and the key is claimed anew. Should the process
 * live after all, it is told that its request was refused.
 */
async function claimFor (
  { store, presence }: SubmitterOptions, tenant: string, request: ClaimRequest
): Promise<Claim> {
  const own = presence === undefined ? request : { ...request, owner: presence.own }
  const claim = await store.claim(tenant, own)
  if (presence === undefined || claim.kind !== 'same' || claim.owner === '') return claim
  if (claim.owner === presence.own || !await presence.isGone(claim.owner)) return claim
  const { kind } = await store.refuse(tenant, claim.job, 'internal')
  return kind === 'refused' ? await store.claim(tenant, own) : claim
}

/** As accept.lua and record.lua keep every outcome that is no job. */
const KEPT_AFTER_ACCEPT_BY_MS = 60_000

async function quote (options: SubmitterOptions, submission: Submission): Promise<Quoted> {
  const { store, clock, acceptWithinMs = ACCEPT_WITHIN_MS } = options
  const { tenant, fingerprint } = submission
  const job = newJobId(clock.now())
  const claim = await store.claim(tenant, {
    job, idempotencyKey: '', fingerprint, acceptWithinMs, quoteOnly: true,
  })
  if (claim.kind !== 'new') throw new Error('a claim without a key is always new')
  try {
    const claimed = { job, ...claim, quoteOnly: true }
    const outcome = await sendAndWait(options, { ...submission, idempotencyKey: '' }, claimed)
    if (outcome.kind === 'accepted') throw new Error('a job came of a quote')
    const { refusal } = outcome
    if (refusal.code !== 'quoted') return outcome
    const { preflight } = refusal
    return { kind: 'quoted', preflight, forgetAtMs: claim.acceptByMs + KEPT_AFTER_ACCEPT_BY_MS }
  } finally {
    await store.eraseKey(tenant, job)
  }
}

/** Enough for 100,000 rows through a busy pipeline, and less than clients commonly wait. */
const ACCEPT_WITHIN_MS = 25_000

async function sendAndWait (
  options: SubmitterOptions, submission: Submission, claimed: Claimed
): Promise<Decided> {
  const { store, outcomes, clock } = options
  const { tenant } = submission
  const { job, acceptByMs } = claimed
  const ends = new AbortController()
  // Sending goes on while we wait: a broker that is away must not hold the answer back.
  const sending = send(options, { submission, claimed, signal: ends.signal })
  try {
    const waiting = outcomes.wait({
      tenant, job, acceptByMs, isNew: true, signal: ends.signal,
    })
    const outcome = await Promise.race([waiting, failureOf(sending)])
    if (outcome.kind === 'refused') ends.abort()
    // The copy of the data key is to be safe before the client hears of the job.
    else await withTimeout(sending, acceptByMs - clock.now())
    return outcome
  } catch (error) {
    ends.abort()
    const outcome = await store.refuse(tenant, job, 'internal')
    if (outcome.kind === 'open') throw error
    if (outcome.kind === 'accepted' && !isSafe(outcome)) throw notJournaled(error)
    if (outcome.kind === 'refused' && outcome.forgotten === true) throw forgotten(error)
    // Clients are answered the same in any case. A feed gives up contacts that no job can be made
    // of, and an outage says nothing about those.
    const isOutage = outcome.kind === 'refused' && isInfrastructure(error)
    if (isOutage && submission.feed !== undefined) throw error
    return outcome
  }
}

/** Redis has nothing of a claim that may have become a job and was closed long ago. */
function forgotten (cause: unknown): InfrastructureError {
  return new InfrastructureError('nothing is known of the claim any more', { cause })
}

/** Rejects as the work does and never resolves, so that it can lose a race only by failing. */
async function failureOf (work: Promise<void>): Promise<never> {
  await work
  return new Promise<never>(() => {})
}
