import type { Redis } from 'ioredis'
import { setTimeout as delay } from 'node:timers/promises'
import type { Clock } from '../platform/clock.ts'
import { InfrastructureError } from '../platform/errors.ts'
import { OUTCOMES_CHANNEL } from './redis-keys.ts'
import type { Job } from './job.ts'
import type { JobStore, Outcome } from './store.ts'

export type Decided = Exclude<Outcome, { readonly kind: 'open' }>

export type OutcomesOptions = {
  readonly store: Pick<JobStore, 'outcome' | 'refuse'>
  /**
   * A job that was closed so long ago that Redis has forgotten it. Feeds do without: by its cursor
   * none of their contacts comes to a second job.
   */
  readonly findArchived?: (
    tenant: string, job: string,
  ) => Promise<{ readonly job: Job } | undefined>
  /** A connection of its own: once subscribed it serves nothing else. */
  readonly subscriber: Redis
  readonly clock: Clock
  readonly pollMs?: number
}

export type OutcomeWaiter = {
  /**
   * What became of a claim: the accepted job once it is announced, or its refusal; at `acceptByMs`
   * whatever is stored by then, or else the refusal `expired`, stored now. A job whose reservation
   * is in the outbox alone is nobody's to hear of: Redis could still lose it. A job that Redis has
   * forgotten is answered from the archive.
   * @throws InfrastructureError when that does not come to the journal within ten seconds.
   * @throws the abort reason after `stop`, or when `signal` is aborted.
   */
  readonly wait: (claim: {
    readonly tenant: string
    readonly job: string
    readonly acceptByMs: number
    /** Nothing can have become of it before the call. */
    readonly isNew?: boolean
    readonly signal?: AbortSignal
  }) => Promise<Decided>
  /** Ends every wait. */
  readonly stop: () => void
}

/** Waits of requests for their outcomes: a nudge by pub/sub, and polling where a nudge is lost. */
export async function createOutcomeWaiter (options: OutcomesOptions): Promise<OutcomeWaiter> {
  const { store, findArchived, subscriber, clock, pollMs = 250 } = options
  const nudges = new EventTarget()
  const stopped = new AbortController()
  subscriber.on('message', (_channel, job) => nudges.dispatchEvent(new Event(job)))
  await subscriber.subscribe(OUTCOMES_CHANNEL)

  const wait: OutcomeWaiter['wait'] = async (
    { tenant, job, acceptByMs, isNew = false, signal }
  ) => {
    const ends = signal === undefined ? stopped.signal : AbortSignal.any([stopped.signal, signal])
    for (let asks = !isNew; ; asks = true) {
      const nudged = nextNudge(nudges, job, ends)
      try {
        const outcome = asks ? await decided({ tenant, job, acceptByMs }) : undefined
        if (outcome !== undefined) return outcome
        const lateMs = clock.now() - acceptByMs
        const waitMs = lateMs > EXPIRY_RETRY_MS ? pollMs : Math.max(-lateMs, EXPIRY_RETRY_MS)
        await nudged.within(Math.min(pollMs, waitMs))
      } finally {
        nudged.forget()
      }
      ends.throwIfAborted()
    }
  }

  const decided = async (
    { tenant, job, acceptByMs }: { tenant: string, job: string, acceptByMs: number }
  ): Promise<Decided | undefined> => {
    const lateMs = clock.now() - acceptByMs
    const late = lateMs >= 0
    const outcome = await (late ? store.refuse(tenant, job, 'expired') : store.outcome(tenant, job))
    if (outcome.kind === 'open') return undefined
    if (outcome.kind === 'refused' && outcome.forgotten === true) {
      const archived = await findArchived?.(tenant, job)
      return archived === undefined ? outcome : { kind: 'accepted', job: archived.job }
    }
    const ready = outcome.kind === 'refused' || outcome.job.announced || (late && isSafe(outcome))
    if (!ready && lateMs > JOURNALED_WITHIN_MS) throw notJournaled()
    return ready ? outcome : undefined
  }

  return {
    wait,
    stop: () => stopped.abort(new Error('the service is stopping')),
  }
}

/** `ledger` ships what is left in an outbox every second. */
const JOURNALED_WITHIN_MS = 10_000

/** Nobody can be told of the job yet, nor that there is none. */
export function notJournaled (cause?: unknown): InfrastructureError {
  const message = 'the reservation of an accepted job is not in the journal yet'
  return new InfrastructureError(message, { cause })
}

/** Whether a job that was accepted outlives Redis. */
export function isSafe ({ job, entry }: Extract<Outcome, { kind: 'accepted' }>): boolean {
  return job.announced || job.closed || entry === undefined
}

/**
 * Our clock may run some milliseconds ahead of Redis, which alone says when a claim has expired.
 */
const EXPIRY_RETRY_MS = 5

/** The next nudge for a job, listened for from now on; `forget` ends the listening. */
function nextNudge (nudges: EventTarget, job: string, ends: AbortSignal) {
  const over = new AbortController()
  const either = AbortSignal.any([ends, over.signal])
  const nudged = new Promise<void>((resolve) => {
    nudges.addEventListener(job, () => resolve(), { once: true, signal: over.signal })
  })
  const within = async (timeoutMs: number) => {
    const late = delay(timeoutMs, undefined, { signal: either }).catch(() => {})
    await Promise.race([nudged, late])
  }
  return { within, forget: () => over.abort() }
}
