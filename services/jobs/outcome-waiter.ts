import type { Clock } from '../runtime/platform/clock.ts'
import { InfrastructureError } from '../runtime/platform/errors.ts'
import type { Job } from './job.ts'
import { outcomeIn } from './job-record.ts'
import type { Notifications } from './job-waiter.ts'
import type { JobStore } from './store.ts'
import type { Outcome } from './store-types.ts'

export type DecidedOutcome = Exclude<Outcome, { readonly kind: 'open' }>

export type OutcomesOptions = {
  readonly store: Pick<JobStore, 'outcome' | 'refuse'>
  /**
   * Finds a closed job whose record in Redis has expired. Feeds do not need it: their cursor
   * prevents a second job with the same contacts.
   */
  readonly findArchived?: (
    tenant: string, job: string,
  ) => Promise<{ readonly job: Job } | undefined>
  readonly notifications: Notifications
  readonly clock: Clock
  readonly pollMs?: number
}

export type OutcomeWaiter = {
  /**
   * Waits for the outcome of a claim: the accepted job once it is announced, or the refusal. At
   * `acceptByMs` it returns the stored outcome, or stores the refusal `expired`. It never returns a
   * job whose reservation is only in the outbox, because Redis could still lose it. A job whose
   * record has expired comes from the archive.
   * @throws InfrastructureError when the reservation is not in the journal within ten seconds.
   * @throws the abort reason after `stop`, or when `signal` is aborted.
   */
  readonly wait: (claim: {
    readonly tenant: string
    readonly job: string
    readonly acceptByMs: number
    /** True for a new claim: it has no outcome before the call. */
    readonly isNew?: boolean
    readonly signal?: AbortSignal
  }) => Promise<DecidedOutcome>
  /** Aborts all waits. */
  readonly stop: () => void
}

/** Lets requests wait for outcomes: notified by pub/sub, with polling for lost notifications. */
export function createOutcomeWaiter (options: OutcomesOptions): OutcomeWaiter {
  const { store, findArchived, notifications, clock, pollMs = 250 } = options
  const stopped = new AbortController()

  const wait: OutcomeWaiter['wait'] = async (
    { tenant, job, acceptByMs, isNew = false, signal }
  ) => {
    const ends = signal === undefined ? stopped.signal : AbortSignal.any([stopped.signal, signal])
    for (let reads = !isNew; ; reads = true) {
      const notified = notifications.next(job, ends)
      try {
        const outcome = reads ? await decided({ tenant, job, acceptByMs }) : undefined
        if (outcome !== undefined) return outcome
        const lateMs = clock.now() - acceptByMs
        const waitMs = lateMs > EXPIRY_RETRY_MS ? pollMs : Math.max(-lateMs, EXPIRY_RETRY_MS)
        const record = await notified.within(Math.min(pollMs, waitMs))
        const notice = record && outcomeIn({ tenant, job }, record)
        if (notice !== undefined && isFinal(notice)) return notice
      } finally {
        notified.unsubscribe()
      }
      ends.throwIfAborted()
    }
  }

  const decided = async (
    { tenant, job, acceptByMs }: { tenant: string, job: string, acceptByMs: number }
  ): Promise<DecidedOutcome | undefined> => {
    const lateMs = clock.now() - acceptByMs
    const late = lateMs >= 0
    const outcome = await (late ? store.refuse(tenant, job, 'expired') : store.outcome(tenant, job))
    if (outcome.kind === 'open') return undefined
    if (outcome.kind === 'refused' && outcome.forgotten === true) {
      const archived = await findArchived?.(tenant, job)
      return archived === undefined ? outcome : { kind: 'accepted', job: archived.job }
    }
    const ready = isFinal(outcome) || (late && isSafe(outcome))
    if (!ready && lateMs > JOURNALED_WITHIN_MS) throw notJournaled(job)
    return ready ? outcome : undefined
  }

  return {
    wait,
    stop: () => stopped.abort(new Error('the service is stopping')),
  }
}

/** An outcome that the client may learn, and that no longer changes. */
const isFinal = (outcome: Outcome): outcome is DecidedOutcome =>
  outcome.kind === 'refused' || (outcome.kind === 'accepted' && outcome.job.announced)

/** `ledger` ships outboxes every second. */
const JOURNALED_WITHIN_MS = 10_000

/** The outcome is unknown until the reservation is in the journal. */
export function notJournaled (job: string, cause?: unknown): InfrastructureError {
  return new InfrastructureError(`the reservation of job ${job} is in Redis but not confirmed in ` +
    'wallet.journal; if this lasts, check that ledger runs and Kafka accepts writes', { cause })
}

/** True if an accepted job survives a loss of Redis. */
export function isSafe ({ job, entry }: Extract<Outcome, { kind: 'accepted' }>): boolean {
  return job.announced || job.closed || entry === undefined
}

/** This clock may be some milliseconds ahead of Redis, which decides when a claim expires. */
const EXPIRY_RETRY_MS = 5
