import type { Partner } from '../accounts/partners.ts'
import { connectSealingKeys } from '../jobs/job-keys.ts'
import type { Refusal } from '../jobs/job.ts'
import { subscribeToJobs, createOutcomeWaiter } from '../jobs/job-waiter.ts'
import { createMessageCodec } from '../jobs/message-codec.ts'
import { createSubmitter, type Submitted, type Submitter } from '../jobs/submit.ts'
import { createJobStore } from '../jobs/store.ts'
import { type Connections, openSubscriber } from '../runtime/engine/connections.ts'
import { createEmitter } from '../runtime/engine/stage.ts'
import { watchJobPartitions } from '../runtime/kafka/partitioning.ts'
import { failpoint } from '../runtime/platform/failpoint.ts'
import type { Metrics } from '../runtime/platform/metrics.ts'
import { backoffMs, sleep, type Sleep } from '../runtime/platform/retry.ts'
import type { ServiceContext } from '../runtime/platform/run.ts'
import type { Contact, Terms } from './contact.ts'

/** Contacts for one job, which accepts them only if the stored cursor is at `from`. */
export type FeedJobRequest = {
  readonly cursor: string
  readonly terms: Terms
  readonly from: number
  readonly to: number
  readonly inputs: readonly string[]
  readonly references: readonly string[]
  readonly offsets: readonly number[]
}

/** A refusal that ends once the partner has balance or a free slot. */
export type Backpressure = Extract<Refusal, {
  readonly code: 'insufficient_balance' | 'concurrent_jobs_limit'
}>

/**
 * The outcome of a request. `taken`: a job has the contacts. `moved`: the stored cursor is at
 * another offset. `short`: no balance or slot. `late`: the pipeline did not answer in time.
 * `failed`: the pipeline could not decide. `lost`: the outcome is unknown.
 */
export type JobOutcome =
  | { readonly kind: 'taken', readonly job?: string }
  | { readonly kind: 'moved' | 'late' | 'failed' | 'lost' }
  | { readonly kind: 'short', readonly refusal: Backpressure }

export type BatchLimits = {
  /** A batch closes when it has this many contacts. */
  readonly contacts: number
  /** A batch closes this long after its first contact arrived. */
  readonly ageMs: number
}

/** A job has the contacts, whose id may be unknown after a crash, or they were answered. */
export type PassedBy = { readonly job?: string | undefined } | { readonly answer: string }

export type CursorDeps = {
  readonly cursor: string
  readonly terms: Terms
  readonly batchLimits: BatchLimits
  /** The offset of the stored cursor. */
  readonly position: number
  readonly submit: (request: FeedJobRequest) => Promise<JobOutcome>
  /** Reads the offset of the stored cursor again. */
  readonly reread: () => Promise<number>
  /** Called with contacts that are finished. */
  readonly passed: (contacts: readonly Contact[], by: PassedBy) => void
  /** Answers a contact for which no job can be created. */
  readonly failContact: (contact: Contact, terms: Terms) => Promise<void>
  /** Resolves when a retry may succeed. */
  readonly pause: (refusal: Backpressure) => Promise<void>
  /** Called with an error that retries cannot fix. */
  readonly fail: (error: unknown) => void
  readonly signal: AbortSignal
  readonly now: () => number
  readonly sleep?: Sleep
}

/** The minimum number of contacts in a batch that is reduced because the pipeline is slow. */
const MIN_LATE_BATCH = 1_000
const MAX_SINGLE_TRIES = 8
const BACKOFF = { firstMs: 200, maxMs: 30_000 }

/**
 * Submits the contacts of one cursor as jobs, one preflight at a time. Only the script `accept`
 * moves the stored cursor, together with the creation of the job. Therefore a job takes each
 * contact once, even if this process or an earlier one requests a job twice.
 */
export class Cursor {
  readonly #deps: CursorDeps
  readonly #batch: ContactBatch
  #position: number
  /** Numbers of consecutive outcomes. Those that are lost only make the pauses longer. */
  readonly #consecutive = { late: 0, failed: 0, lost: 0 }
  /** Number of outcomes `failed` for the first contact alone. */
  #single = 0
  #isRunning = false
  #wake = () => {}

  constructor (deps: CursorDeps) {
    this.#deps = deps
    this.#batch = new ContactBatch(deps.batchLimits)
    this.#position = deps.position
  }

  /** False for a contact that the cursor has passed: a job has it already. */
  add (contact: Contact): boolean {
    if (contact.offset <= this.#position) return false
    const { now, batchLimits, signal, fail } = this.#deps
    this.#batch.add(contact, now())
    if (this.#batch.size >= batchLimits.contacts) this.#wake()
    // An error after the partition was lost is no failure.
    if (!this.#isRunning) this.#run().catch(error => { if (!signal.aborted) fail(error) })
    return true
  }

  /** Submits the contacts now, without waiting for more. */
  close (): void {
    this.#batch.close()
    this.#wake()
  }

  async #run (): Promise<void> {
    const { signal } = this.#deps
    this.#isRunning = true
    while (this.#batch.size > 0 && !signal.aborted) {
      await this.#untilDue()
      if (!signal.aborted) await this.#submitBatch()
    }
    // Synchronous with the last check of the size, so that the next contact starts a new run.
    this.#isRunning = false
  }

  async #untilDue (): Promise<void> {
    const { now, signal, sleep: pause = sleep } = this.#deps
    for (;;) {
      const dueInMs = this.#batch.dueInMs(now())
      if (dueInMs === 0 || signal.aborted) return
      const woken = new Promise<void>(resolve => { this.#wake = resolve })
      await Promise.race([woken, pause(dueInMs, signal).catch(() => {})])
    }
  }

  /** Requests one job and applies its outcome. */
  async #submitBatch (): Promise<void> {
    const { signal, cursor, terms, submit, pause, reread, sleep: wait = sleep } = this.#deps
    const contacts = this.#batch.first(this.#batchSize())
    const to = contacts.at(-1)?.offset
    if (to === undefined) return
    failpoint('feed.asking')
    const outcome = await submit({
      cursor,
      terms,
      from: this.#position,
      to,
      inputs: contacts.map(({ input }) => input),
      offsets: contacts.map(({ offset, answers }) => answers ?? offset),
      references: contacts.map(({ reference }) => reference),
    })
    if (signal.aborted) return
    if (outcome.kind === 'taken') {
      failpoint('feed.taken')
      Object.assign(this.#consecutive, { late: 0, failed: 0, lost: 0 })
      this.#single = 0
      return this.#moveTo(to, { job: outcome.job })
    }
    // A wait that ends early because the partition is lost is no failure.
    if (outcome.kind === 'short') return await pause(outcome.refusal).catch(() => {})
    if (outcome.kind !== 'moved') this.#consecutive[outcome.kind]++
    this.#moveTo(await reread())
    const [contact, ...others] = contacts
    if (outcome.kind === 'failed' && contact !== undefined && others.length === 0) {
      await this.#countSingleFailure(contact)
    }
    if (outcome.kind === 'moved' || signal.aborted) return
    const tries = Math.max(1, ...Object.values(this.#consecutive))
    await wait(backoffMs(tries, BACKOFF), signal).catch(() => {})
  }

  /**
   * Half as much after each outcome `late` or `failed`. After enough failures a contact that no job
   * can be created for is alone, and does not block the others.
   */
  #batchSize (): number {
    const { contacts: max } = this.#deps.batchLimits
    const { late, failed } = this.#consecutive
    const inTime = Math.max(MIN_LATE_BATCH, Math.ceil(max / 2 ** late))
    return Math.min(max, inTime, Math.max(1, Math.ceil(max / 2 ** failed)))
  }

  async #countSingleFailure (contact: Contact): Promise<void> {
    this.#single++
    if (this.#single < MAX_SINGLE_TRIES) return
    const { failContact, passed, terms } = this.#deps
    await failContact(contact, terms)
    this.#single = 0
    passed(this.#batch.passTo(contact.offset), { answer: 'internal' })
  }

  #moveTo (position: number, by: PassedBy = {}): void {
    this.#position = position
    this.#deps.passed(this.#batch.passTo(position), by)
  }
}

/** Contacts of one cursor that no job has yet, in the order of their offsets. */
class ContactBatch {
  readonly #limits: BatchLimits
  #contacts: Contact[] = []
  #arrivals: { readonly upTo: number, readonly atMs: number }[] = []
  #closedUpTo = -1

  constructor (limits: BatchLimits) {
    this.#limits = limits
  }

  get size (): number {
    return this.#contacts.length
  }

  add (contact: Contact, nowMs: number): void {
    this.#contacts.push(contact)
    // Many contacts arrive within a millisecond; they share one entry.
    if (this.#arrivals.at(-1)?.atMs === nowMs) this.#arrivals.pop()
    this.#arrivals.push({ upTo: contact.offset, atMs: nowMs })
  }

  /** Closes the batch with the contacts that it has. */
  close (): void {
    this.#closedUpTo = this.#contacts.at(-1)?.offset ?? this.#closedUpTo
  }

  /** Milliseconds until the batch closes; 0 once it is closed, Infinity while it is empty. */
  dueInMs (nowMs: number): number {
    const [first] = this.#contacts
    if (first === undefined) return Infinity
    if (this.size >= this.#limits.contacts || first.offset <= this.#closedUpTo) return 0
    return Math.max(0, (this.#arrivals[0]?.atMs ?? 0) + this.#limits.ageMs - nowMs)
  }

  first (count: number): readonly Contact[] {
    return this.#contacts.slice(0, count)
  }

  /** Removes every contact up to this offset and returns them. */
  passTo (offset: number): readonly Contact[] {
    const at = this.#contacts.findIndex(contact => contact.offset > offset)
    const passed = at < 0 ? this.#contacts : this.#contacts.slice(0, at)
    this.#contacts = at < 0 ? [] : this.#contacts.slice(at)
    this.#arrivals = this.#arrivals.filter(({ upTo }) => upTo > offset)
    return passed
  }
}

export type SubmitDeps = {
  readonly submitter: Pick<Submitter, 'submit'>
  readonly metrics: Pick<Metrics, 'count'>
  /** Called with the error of a request whose outcome is unknown, and its cursor. */
  readonly onLost: (error: unknown, cursor: {
    readonly partner: string, readonly partition: number, readonly cursor: string,
  }) => void
}

/** The origin of contacts; tenant, mode and prices are those of the partner's registration. */
type Source = {
  readonly partner: Pick<Partner, 'name' | 'tenant' | 'mode' | 'pricesMicros'>
  readonly partition: number
}

/** Requests a job for contacts of a partner, in the same way as the REST API. Never rejects. */
export async function submitContacts (
  { submitter, metrics, onLost }: SubmitDeps, source: Source, request: FeedJobRequest
): Promise<JobOutcome> {
  const { partner: { name, tenant, mode, pricesMicros }, partition } = source
  const { cursor, terms: { service, country, forceFresh }, from, to } = request
  const { inputs, references, offsets } = request
  // A partner without an own price pays the list price.
  const unitPriceMicros = (mode === 'test' ? undefined : pricesMicros[service]) ?? null
  const outcome = await submitter.submit({
    tenant,
    service,
    inputs,
    country,
    forceFresh,
    metadata: {},
    webhookUrl: '',
    idempotencyKey: '',
    fingerprint: '',
    references,
    feed: { source: { partner: name, partition, cursor, from, to, unitPriceMicros }, offsets },
  }).then(toOutcome, error => {
    onLost(error, { partner: name, partition, cursor })
    return { kind: 'lost' } as const
  })
  metrics.count('feed_jobs_total', { outcome: outcome.kind })
  return outcome
}

function toOutcome (submitted: Submitted): JobOutcome {
  if (submitted.kind === 'accepted') return { kind: 'taken', job: submitted.job.id }
  if (submitted.kind === 'reused') return { kind: 'failed' }
  const { refusal } = submitted
  switch (refusal.code) {
    case 'insufficient_balance':
    case 'concurrent_jobs_limit': return { kind: 'short', refusal }
    case 'cursor_moved': return { kind: 'moved' }
    case 'expired': return { kind: 'late' }
    // An operator must unlock the wallet first; until then, requests follow with growing pauses.
    case 'frozen': return { kind: 'lost' }
    case 'quoted':
    case 'internal': return { kind: 'failed' }
  }
}

type SubmitterConnections = Pick<Connections, 'bus' | 'codec' | 'state' | 'clock'>
type Settings = {
  readonly CACHE_SECRET_ACTIVE: string
  readonly FEED_ACCEPT_WITHIN_MS: number
}

/** The submitter of jobs that the REST API uses too, on open connections. */
export async function connectFeedSubmitter (
  settings: Settings, connected: SubmitterConnections, { onStop }: Pick<ServiceContext, 'onStop'>
): Promise<Submitter> {
  const { bus, codec, state, clock } = connected
  const store = createJobStore(state)
  const { CACHE_SECRET_ACTIVE: tokenVersion, FEED_ACCEPT_WITHIN_MS: acceptWithinMs } = settings
  // It seals all rows of a job before it is refused.
  const keys = connectSealingKeys(state, 2 * acceptWithinMs)
  const notifications = await subscribeToJobs(openSubscriber(state, { onStop }))
  const outcomes = createOutcomeWaiter({ store, notifications, clock })
  onStop(() => outcomes.stop())
  const messageCodec = createMessageCodec({ codec, keys })
  const emitter = createEmitter({ messageCodec, producerOf: bus.producer })
  const partitionsOf = watchJobPartitions(bus)
  return createSubmitter({
    store, keys, emitter, outcomes, clock, tokenVersion, acceptWithinMs, partitionsOf,
  })
}
