import { LRUCache } from 'lru-cache'
import { setTimeout as delay } from 'node:timers/promises'
import { parseTenant } from '../accounts/tenant.ts'
import { FairPool } from '../runtime/platform/limits.ts'
import type { DecidedOutcome, Job, Outcome } from './job.ts'
import { type JobFields, parseJob, outcomeIn, OUTCOMES_CHANNEL } from './job-record.ts'
import type { JobStore } from './store.ts'
import type { RedisClient } from '../runtime/platform/redis.ts'
import type { Clock } from '../runtime/platform/retry.ts'
import { InfrastructureError } from '../runtime/platform/errors.ts'

type JobWaiterOptions = {
  readonly store: Pick<JobStore, 'read'>
  readonly notifications: Notifications
  /** Maximum numbers of concurrent waits of this process, and of one organization in it. */
  readonly maxWaits: number
  readonly maxWaitsPerTenant: number
  readonly pollMs?: number
}

export type JobWait = {
  readonly tenant: string
  readonly job: string
  readonly isDone: (job: Job) => boolean
  readonly timeoutMs: number
  /** Ends the wait early. */
  readonly signal?: AbortSignal
}

/** A lost notification delays an answer by this time at most. */
const POLL_MS = 1_000

/** Lets requests wait for changes of jobs: notified by pub/sub, with polling as the fallback. */
export class JobWaiter {
  readonly #options: JobWaiterOptions
  readonly #pool: FairPool
  readonly #stopped = new AbortController()

  constructor (options: JobWaiterOptions) {
    const { maxWaits, maxWaitsPerTenant } = options
    this.#options = options
    this.#pool = new FairPool({
      capacity: maxWaits, maxPerName: Math.min(maxWaits, maxWaitsPerTenant),
    })
  }

  /** The number of waits under way, at most `maxWaits`. */
  get waits (): number {
    return this.#pool.total
  }

  /**
   * The state of a job once `isDone` accepts it, or the latest one at the end of the wait;
   * undefined for a job that Redis does not know. Organizations share the waits fairly: above its
   * share one does not wait at all, and its latest wait may end early. None waits after `stop`.
   */
  async wait ({ tenant, job, isDone, timeoutMs, signal }: JobWait): Promise<Job | undefined> {
    const { store, notifications, pollMs = POLL_MS } = this.#options
    const endsAt = performance.now() + timeoutMs
    const evicted = new AbortController()
    const place = this.#pool.open(parseTenant(tenant).orgId, () => evicted.abort())
    const isPlaced = place.grow(1)
    const ends =
      AbortSignal.any([this.#stopped.signal, evicted.signal, ...signal ? [signal] : []])
    try {
      for (;;) {
        const notified = notifications.next(job, ends)
        try {
          const current = await store.read(tenant, job)
          const leftMs = endsAt - performance.now()
          const isOver = !isPlaced || ends.aborted || leftMs <= 0
          if (current === undefined || isDone(current) || isOver) return current
          const record = await notified.within(Math.min(pollMs, leftMs))
          // Only the record of an ended job cannot be older than what was read.
          if (record?.['ended'] !== '1') continue
          const ended = parseJob(tenant, record)
          if (isDone(ended)) return ended
        } finally {
          notified.unsubscribe()
        }
      }
    } finally {
      place.release()
    }
  }

  /** Ends all waits with the latest state of their jobs. */
  stop (): void {
    this.#stopped.abort()
  }
}

/** The next notification of one job. */
type NextNotification = {
  /**
   * Resolves at the notification, at the timeout, or when the wait is aborted; with the record that
   * came with it, which may be older than one that was read meanwhile. Large ones are left out.
   */
  readonly within: (timeoutMs: number) => Promise<JobFields | undefined>
  readonly unsubscribe: () => void
}

export type Notifications = Awaited<ReturnType<typeof subscribeToJobs>>

/** Characters of inline results that are kept, some thousand of one-row jobs. */
const MAX_INLINE_CHARACTERS = 4_000_000

/**
 * Subscribes to the changes of jobs: outcome, status and close. A message is the id of a job, then
 * its record as JSON after a space and a text after a line break, both optional. Notifications may
 * be lost, so those who wait poll too.
 * @param subscriber a dedicated connection: a subscribed one accepts no other commands.
 */
export async function subscribeToJobs (subscriber: RedisClient) {
  const notifications = new EventTarget()
  const inlineResults = new LRUCache<string, string>({
    maxSize: MAX_INLINE_CHARACTERS, sizeCalculation: text => text.length,
  })
  subscriber.on('message', (_channel, message: string) => {
    const [job = ''] = message.split(/[ \n]/, 1)
    const [detail = '', text = ''] = message.slice(job.length).split(/\n(.*)/s)
    if (text !== '') inlineResults.set(job, text)
    notifications.dispatchEvent(new CustomEvent(job, { detail }))
  })
  await subscriber.subscribe(OUTCOMES_CHANNEL)
  return {
    /**
     * The inline results that came with the end of a job; '' if there were none. Those of the
     * latest jobs are kept, because a job may end before anybody waits for it.
     */
    inlineResultsOf: (job: string): string => inlineResults.get(job) ?? '',

    /**
     * Listens for the next notification of a job until `unsubscribe`. A caller listens before it
     * reads the job, so that no change is missed.
     */
    next: (job: string, ends: AbortSignal): NextNotification => {
      const over = new AbortController()
      const either = AbortSignal.any([ends, over.signal])
      const notified = new Promise<string>((resolve) => {
        const receive = (event: Event) => resolve((event as CustomEvent<string>).detail)
        notifications.addEventListener(job, receive, { once: true, signal: over.signal })
      })
      const within = async (timeoutMs: number) => {
        const late = delay(timeoutMs, '', { signal: either }).catch(() => '')
        const record = await Promise.race([notified, late])
        return record === '' ? undefined : JSON.parse(record) as JobFields
      }
      return { within, unsubscribe: () => over.abort() }
    },
  }
}

type OutcomesOptions = {
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

/** A claim whose outcome is wanted. */
type Claim = { readonly tenant: string, readonly job: string, readonly acceptByMs: number }

/** Lets requests wait for outcomes: notified by pub/sub, with polling for lost notifications. */
export class OutcomeWaiter {
  readonly #options: OutcomesOptions
  readonly #stopped = new AbortController()

  constructor (options: OutcomesOptions) {
    this.#options = options
  }

  /**
   * Waits for the outcome of a claim: the accepted job once it is announced, or the refusal. At
   * `acceptByMs` it returns the stored outcome, or stores the refusal `expired`. It never returns a
   * job whose reservation is only in the outbox, because Redis could still lose it. A job whose
   * record has expired comes from the archive.
   * @throws InfrastructureError when the reservation is not in the journal within ten seconds.
   * @throws the abort reason after `stop`, or when `signal` is aborted.
   */
  async wait ({ isNew = false, signal, ...claim }: Claim & {
    /** True for a new claim: it has no outcome before the call. */
    readonly isNew?: boolean
    readonly signal?: AbortSignal
  }): Promise<DecidedOutcome> {
    const { notifications, clock, pollMs = 250 } = this.#options
    const { tenant, job, acceptByMs } = claim
    const ends = AbortSignal.any([this.#stopped.signal, ...signal ? [signal] : []])
    for (let reads = !isNew; ; reads = true) {
      const notified = notifications.next(job, ends)
      try {
        const outcome = reads ? await this.#readDecided(claim) : undefined
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

  /** Aborts all waits. */
  stop (): void {
    this.#stopped.abort(new Error('the service is stopping'))
  }

  async #readDecided ({ tenant, job, acceptByMs }: Claim): Promise<DecidedOutcome | undefined> {
    const { store, findArchived, clock } = this.#options
    const lateMs = clock.now() - acceptByMs
    const isLate = lateMs >= 0
    const outcome =
      await (isLate ? store.refuse(tenant, job, 'expired') : store.outcome(tenant, job))
    if (outcome.kind === 'open') return undefined
    if (outcome.kind === 'refused' && outcome.forgotten === true) {
      const archived = await findArchived?.(tenant, job)
      return archived === undefined ? outcome : { kind: 'accepted', job: archived.job }
    }
    const isReady = isFinal(outcome) || (isLate && isSafe(outcome))
    if (!isReady && lateMs > JOURNALED_WITHIN_MS) throw notJournaled(job)
    return isReady ? outcome : undefined
  }
}

/** An outcome that the client may learn, and that no longer changes. */
const isFinal = (outcome: Outcome): outcome is DecidedOutcome =>
  outcome.kind === 'refused' || (outcome.kind === 'accepted' && outcome.job.announced)

/**
 * Longer than a redelivery to `lookup` usually takes. The client then gets `OUTCOME_UNKNOWN`, and
 * repeats the request with its idempotency key.
 */
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
