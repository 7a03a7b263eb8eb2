import type { FeedContact } from '../../schemas/types.ts'
import type { PartnerKeys } from '../accounts/partners.ts'
import type { Refusal } from '../jobs/job.ts'
import {
  diedAgain, type DeadLetters, type ReplayOutcome,
} from '../runtime/engine/dead-letters.ts'
import type { Gate } from '../runtime/engine/pause.ts'
import { Offsets } from '../runtime/engine/queue.ts'
import type { ConsumeOptions, FetchedBatch, RawMessage } from '../runtime/kafka/bus.ts'
import { type MessageMac, REPLAY_OF } from '../runtime/crypto/mac.ts'
import type { Codec } from '../runtime/kafka/registry.ts'
import { splitBatches } from '../runtime/platform/batch-writes.ts'
import { InconsistencyError, isInfrastructure } from '../runtime/platform/errors.ts'
import { Capacity, eventLoop } from '../runtime/platform/limits.ts'
import { failpoint } from '../runtime/platform/failpoint.ts'
import type { Metrics } from '../runtime/platform/metrics.ts'
import {
  backoffMs, type Clock, retryForever, sleep, type Sleep,
} from '../runtime/platform/retry.ts'
import {
  nameCursor, readContact, readTerms, type Contact, type ContactReadOptions, type ReadContact,
  type Rejections, type Terms,
} from './contact.ts'
import {
  BEGINNING, type CursorPositions, ReplayGuard, type Marks, type ReplayGuardDeps,
} from './replay-guard.ts'

export type IntakeDeps = Pick<ContactReadOptions, 'partner' | 'isConfigured'> & {
  /** The partner's keys that have not expired now. */
  readonly keys: () => Promise<PartnerKeys>
  readonly clock: Clock
  readonly codec: Codec
  readonly deadLetters: Pick<DeadLetters, 'send' | 'report'>
  /** Whether an operator has replayed a message; nothing that a partner writes is a replay. */
  readonly isReplay: MessageMac['isReplay']
  readonly rejections: Rejections
  readonly metrics: Pick<Metrics, 'count'>
  readonly openPartition: (delivery: FetchedBatch) => Promise<Partition>
  /** Called with each infrastructure error that is retried. */
  readonly onRetry: (error: unknown) => void
  /** Called with each replayed contact. */
  readonly onReplay: (replay: {
    readonly partner: string, readonly partition: number, readonly offset: number,
  }) => void
  /** No contact is read while the gate is closed; always open by default. */
  readonly gate?: Gate | undefined
}

/** A message that an operator replays: whose letter it is of, and when that was. */
type Replay = {
  readonly letter: string
  /** The offset of the first message of the contact. */
  readonly offset: number
  readonly deadAtMs: number
  readonly atMs: number
}
type Message = { readonly raw: RawMessage, readonly replay: Replay | undefined }
type Read = Message & { readonly value: FeedContact, readonly read: ReadContact }
/** `skip`: what became of the message, for the report of a replay; none if that was reported. */
type Opened = Read | Message & { readonly dead: string } |
  Message & { readonly skip: Pick<ReplayOutcome, 'action' | 'reason'> | undefined }
type Into = {
  readonly partition: Partition
  readonly keys: PartnerKeys
  readonly signal: AbortSignal
}

/** Number of messages that are read before the event loop runs other work. */
const MESSAGES_PER_TURN = 500

/**
 * Reads a partner's messages; rejects when the signal of the delivery is aborted. Valid contacts go
 * to their cursors, rejected contacts are answered, and undecodable messages become dead letters. A
 * message is finished only after that, so none is lost silently. A replayed contact is finished
 * without an answer.
 */
export function createIntake (deps: IntakeDeps): ConsumeOptions['onDelivery'] {
  const partitions = new Map<number, Partition>()
  const findPartition = async (delivery: FetchedBatch): Promise<Partition> => {
    const partition = partitions.get(delivery.partition) ?? await deps.openPartition(delivery)
    partitions.set(delivery.partition, partition)
    return partition
  }
  return async delivery => {
    const { signal, messages } = delivery
    const partition = await findPartition(delivery)
    const fromOffset = partition.seekTo(messages[0]?.offset ?? 0n)
    if (fromOffset !== undefined) {
      // The group may have no commit yet: its lag counts only what is not finished.
      delivery.commit(fromOffset)
      return delivery.redeliver(fromOffset, 0)
    }
    partition.begin(delivery)
    for (const some of splitBatches(messages, MESSAGES_PER_TURN)) {
      await partition.untilFree()
      await deps.gate?.opened(signal)
      signal.throwIfAborted()
      await takeIn(deps, some, { partition, signal })
      await eventLoop.yield('bulk')
    }
    await partition.commit()
  }
}

async function takeIn (
  deps: IntakeDeps, messages: readonly RawMessage[],
  { partition, signal }: Omit<Into, 'keys'>
): Promise<void> {
  const { metrics, onRetry } = deps
  const retrying = <T>(action: () => Promise<T>) =>
    retryForever(action, { signal, when: isInfrastructure, onRetry })
  // Read for each batch: a contact may be sealed by a key that is a moment old.
  const keys = await retrying(deps.keys)
  const into = { partition, keys, signal }
  const opened = await retrying(() => Promise.all(messages.map(raw => open(deps, raw, into))))
  const checked = opened.map(message =>
    'read' in message ? checkReplay(deps, message, partition) : message)
  await sendFailures(deps, checked, into)
  await partition.guard.addDead(
    checked.flatMap(message => 'dead' in message ? [Number(message.raw.offset)] : []))
  for (const message of checked) {
    metrics.count('stage_chunks_total', { stage: 'feed', lane: '', service: '' })
    if (!('read' in message)) {
      partition.finish(message.raw, toReplayOutcome(message))
      continue
    }
    const { read, raw, replay } = message
    if (read.kind === 'contact') partition.take(read.contact, read.terms, replay?.letter)
    else partition.finish(raw, toReplayOutcome(message))
    if (read.kind === 'end_marker' || ('endsBatch' in read && read.endsBatch)) partition.close()
  }
}

/** The outcome of a finished message that is no contact of a job, if it is a replay. */
function toReplayOutcome (message: Opened): ReplayOutcome | undefined {
  const { replay } = message
  if (replay === undefined) return undefined
  const { letter } = replay
  if ('dead' in message) return { ...diedAgain(message.dead), letter }
  if ('skip' in message) return message.skip && { ...message.skip, letter }
  const { read } = message
  const reason = read.kind === 'rejected' ? `answered: ${read.reason}` : 'taken'
  return { action: 'replayed', reason, letter }
}

async function open (
  deps: IntakeDeps, raw: RawMessage, { partition, keys }: Into
): Promise<Opened> {
  const replay = readReplay(deps, raw)
  if (raw.value === null) return { raw, replay, skip: IGNORED.empty }
  const offset = Number(raw.offset)
  if (partition.isFinished(offset)) return { raw, replay, skip: undefined }
  if (partition.guard.isDead(offset)) return { raw, replay, skip: diedAgain(UNDECODABLE) }
  try {
    const value = await deps.codec.decode('feeds.submitted', raw.value) as FeedContact
    const { partner, isConfigured, clock } = deps
    const options = {
      partner,
      isConfigured,
      keys,
      // A letter may wait for longer than a contact is accepted.
      nowMs: replay?.deadAtMs ?? clock.now(),
      partition: raw.partition,
      offset,
      answers: replay?.offset,
    }
    return { raw, replay, value, read: readContact(value, options) }
  } catch (error) {
    if (isInfrastructure(error)) throw error
    return { raw, replay, dead: UNDECODABLE }
  }
}

const UNDECODABLE = 'undecodable'
/** A signature is valid for as long as the log may be read again, like the time of a contact. */
const MAX_REPLAY_AGE_MS = 8 * 86_400_000

function readReplay ({ isReplay, clock }: IntakeDeps, raw: RawMessage): Replay | undefined {
  if (!isReplay(raw)) return undefined
  const { headers } = raw
  const replay = {
    letter: headers[REPLAY_OF] ?? '',
    offset: Number(headers['replay_offset']),
    deadAtMs: Number(headers['replay_dead_at']),
    atMs: Number(headers['replay_at']),
  }
  const isComplete = [replay.offset, replay.deadAtMs, replay.atMs].every(Number.isSafeInteger)
  return isComplete && clock.now() - replay.atMs < MAX_REPLAY_AGE_MS ? replay : undefined
}

const ignored = (reason: string) => ({ action: 'ignored', reason } as const)
const IGNORED = {
  empty: ignored('the message is empty'),
  taken: ignored('an earlier replay of the contact was taken'),
  elsewhere: ignored('the contact was sent to another partition'),
}

/**
 * Skips a replayed contact, and a rejected one that its cursor has passed: that one was answered,
 * or became a row while its key or its time was still valid.
 */
function checkReplay (deps: IntakeDeps, message: Read, partition: Partition): Opened {
  const { raw, replay, value, read } = message
  if (read.kind === 'end_marker') return message
  if (read.kind === 'wrong_partition') return skipReplay(deps, message, IGNORED.elsewhere)
  const offset = Number(raw.offset)
  const verdict = checkStamp(message, partition)
  if (verdict === 'replayed') return skipReplay(deps, message, IGNORED.taken)
  if (verdict === 'fresh' && read.kind === 'contact') return message
  if (partition.isPassed(readTerms(value), offset)) {
    return { raw, replay, skip: { action: 'replayed', reason: 'taken' } }
  }
  if (verdict === 'fresh') return message
  const { endsBatch } = read
  return { raw, replay, value, read: { kind: 'rejected', reason: 'too_many_senders', endsBatch } }
}

function checkStamp ({ raw, replay, read }: Read, partition: Partition) {
  const stamp = 'stamp' in read ? read.stamp : undefined
  if (stamp === undefined) return 'fresh'
  const offset = Number(raw.offset)
  return replay === undefined
    ? partition.guard.check(offset, stamp)
    : partition.guard.checkReplay(offset, stamp, replay.atMs)
}

function skipReplay (
  { metrics, onReplay, partner }: IntakeDeps, { raw, replay }: Message,
  skip: Pick<ReplayOutcome, 'action' | 'reason'>
): Opened {
  metrics.count('feed_replays_total', {})
  onReplay({ partner, partition: raw.partition, offset: Number(raw.offset) })
  return { raw, replay, skip }
}

/** Sends dead letters and rejections; retries until Kafka has acknowledged both. */
async function sendFailures (
  { deadLetters, rejections, partner, onRetry }: IntakeDeps,
  opened: readonly Opened[], { keys: [key], signal }: Into
): Promise<void> {
  const dead = opened.flatMap(message => 'dead' in message
    ? [{ raw: message.raw, reason: message.dead, cause: 'unreadable' as const }]
    : [])
  const rejected = opened.flatMap(message => 'read' in message && message.read.kind === 'rejected'
    ? [{
        offset: message.replay?.offset ?? Number(message.raw.offset),
        value: message.value,
        reason: message.read.reason,
      }]
    : [])
  const target = { partner, key, partition: opened[0]?.raw.partition ?? 0 }
  const retrying = (action: () => Promise<void>) =>
    retryForever(action, { signal, when: isInfrastructure, onRetry })
  await retrying(() => deadLetters.send([dead], signal))
  await retrying(() => rejections.reject(target, rejected, signal))
}

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
type PassedBy = { readonly job?: string | undefined } | { readonly answer: string }

export type PartitionDeps = {
  readonly topicPartition: { readonly topic: string, readonly partition: number }
  readonly batchLimits: BatchLimits
  readonly submit: (request: FeedJobRequest) => Promise<JobOutcome>
  /** Answers a contact for which no job can be created. */
  readonly failContact: (contact: Contact, terms: Terms) => Promise<void>
  /** Resolves when a retry may succeed. */
  readonly pause: (refusal: Backpressure) => Promise<void>
  /** Called with an error that retries cannot fix. */
  readonly fail: (error: unknown) => void
  /** Aborted when the partition is lost, or the partner is paused or has failed. */
  readonly signal: AbortSignal
  /** The offsets of the stored cursors; waits until Redis answers. */
  readonly positions: () => Promise<CursorPositions>
  /** The stored marks of the partition; both wait until Redis answers. */
  readonly marks: {
    readonly read: () => Promise<Marks>
    readonly write: ReplayGuardDeps['write']
    readonly writeDead: ReplayGuardDeps['writeDead']
  }
  /** Records what became of replayed letters; waits until Kafka has acknowledged it. */
  readonly reportReplays: (outcomes: readonly ReplayOutcome[]) => Promise<void>
  readonly clock: Clock
  /** Monotonic milliseconds. */
  readonly now: () => number
  readonly sleep?: Sleep
  /** The memory for contacts of all partners. */
  readonly buffered: Capacity
}

/** One batch collects contacts while the other one waits for its preflight. */
const BUFFERED_BATCHES = 2

/**
 * Messages of one partition of a partner, from its opening until the signal is aborted. It gives
 * each contact to its cursor, and commits offsets only up to the first contact that its cursor has
 * not passed, so that the next process reads again what a crash loses. That process finishes
 * contacts that a cursor has passed at once.
 */
export class Partition {
  readonly guard: ReplayGuard
  readonly #deps: PartitionDeps
  /** The offsets of the cursors when the partition was opened. */
  readonly #positions: CursorPositions
  readonly #commits: ReturnType<typeof createCommits>
  /** For the contacts of this partition, within that of all. */
  readonly #memory: Capacity
  readonly #cursors = new Map<string, Cursor>()
  /** By offset, the letters of replayed contacts that no job has yet. */
  readonly #letters = new Map<number, string>()
  #isFirst = true

  private constructor (deps: PartitionDeps, guard: ReplayGuard, positions: CursorPositions) {
    const { signal, buffered, batchLimits } = deps
    this.guard = guard
    this.#deps = deps
    this.#positions = positions
    this.#commits = createCommits(deps, guard)
    this.#memory = new Capacity(batchLimits.contacts * BUFFERED_BATCHES)
    signal.addEventListener('abort', () => buffered.release(this.#memory.used()), { once: true })
  }

  static async open (deps: PartitionDeps): Promise<Partition> {
    const { read, write, writeDead } = deps.marks
    const guard = new ReplayGuard({ marks: await read(), write, writeDead, now: deps.clock.now })
    return new Partition(deps, guard, await deps.positions())
  }

  /**
   * The offset to read from instead, if the first delivery does not start at the end of the stored
   * marks. Before it everything is finished; after it the log rebuilds lost marks. Undefined from
   * the second delivery on, because the log itself may have gaps.
   */
  seekTo (first: bigint): bigint | undefined {
    const next = BigInt(this.guard.finishedTo) + 1n
    const isElsewhere = this.#isFirst && first !== next
    this.#isFirst = false
    return isElsewhere ? next : undefined
  }

  /** Whether a message was finished before the partition was opened. */
  isFinished (offset: number): boolean {
    return offset <= this.guard.finishedTo
  }

  /** Whether the cursor of these terms had passed the offset when the partition was opened. */
  isPassed (terms: Parameters<typeof nameCursor>[0], offset: number): boolean {
    return offset <= (this.#positions.get(nameCursor(terms)) ?? BEGINNING)
  }

  /** Adds the unfinished messages of a delivery, and its way to commit. */
  begin (delivery: FetchedBatch): void {
    this.#commits.begin(delivery)
  }

  /** `letter`: the position of the letter whose replay the contact is. */
  take (contact: Contact, terms: Terms, letter?: string): void {
    if (this.#deps.signal.aborted) return
    if (!this.#openCursor(terms).add(contact)) {
      const outcome = letter === undefined ? undefined : passedOutcome(letter, {})
      return this.#commits.finish(BigInt(contact.offset), outcome)
    }
    if (letter !== undefined) this.#letters.set(contact.offset, letter)
    this.#deps.buffered.take(1)
    this.#memory.take(1)
  }

  /** Marks a message as finished, with its outcome if it is the replay of a letter. */
  finish ({ offset }: RawMessage, outcome?: ReplayOutcome): void {
    this.#commits.finish(offset, outcome)
  }

  /** Closes the batches of all cursors. */
  close (): void {
    for (const cursor of this.#cursors.values()) cursor.close()
  }

  /** Resolves once the memory has capacity for more contacts. */
  async untilFree (): Promise<void> {
    const { signal, buffered } = this.#deps
    await this.#memory.untilFree(signal)
    // Another partition has as much memory again, however many contacts this one has.
    await buffered.untilFree(signal, () => this.#memory.used())
  }

  /** Commits the offsets that all cursors have passed. */
  async commit (): Promise<void> {
    await this.#commits.commit()
  }

  #openCursor (terms: Terms): Cursor {
    const name = nameCursor(terms)
    const existing = this.#cursors.get(name)
    if (existing !== undefined) return existing
    const created = new Cursor({
      ...this.#deps,
      cursor: name,
      terms,
      position: this.#positions.get(name) ?? BEGINNING,
      reread: async () => (await this.#deps.positions()).get(name) ?? BEGINNING,
      passed: (contacts, by) => this.#pass(contacts, by),
    })
    this.#cursors.set(name, created)
    return created
  }

  #pass (contacts: readonly Contact[], by: PassedBy): void {
    const { signal, buffered, fail } = this.#deps
    if (signal.aborted || contacts.length === 0) return
    for (const { offset } of contacts) {
      const letter = this.#letters.get(offset)
      this.#letters.delete(offset)
      const outcome = letter === undefined ? undefined : passedOutcome(letter, by)
      this.#commits.finish(BigInt(offset), outcome)
    }
    buffered.release(contacts.length)
    this.#memory.release(contacts.length)
    this.commit().catch(fail)
  }
}

function passedOutcome (letter: string, by: PassedBy): ReplayOutcome {
  return 'answer' in by
    ? { letter, action: 'replayed', reason: `answered: ${by.answer}` }
    : { letter, action: 'replayed', reason: 'taken by a job', job: by.job }
}

type CursorDeps = PartitionDeps & {
  readonly cursor: string
  readonly terms: Terms
  /** The offset of the stored cursor. */
  readonly position: number
  /** Reads the offset of the stored cursor again. */
  readonly reread: () => Promise<number>
  /** Called with contacts that are finished. */
  readonly passed: (contacts: readonly Contact[], by: PassedBy) => void
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
class Cursor {
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

/**
 * Commits one offset after another, each as far as all messages below it are finished. The marks
 * are stored first: a message that Kafka does not deliver again must have left its mark, and the
 * outcome of a replay must be recorded by then.
 */
function createCommits (
  { topicPartition, signal, fail, reportReplays }: PartitionDeps, guard: ReplayGuard
) {
  const outcomes = new Map<bigint, ReplayOutcome>()
  const offsets = new Offsets()
  let commitOffset: FetchedBatch['commit'] = () => {}
  let committing: Promise<void> = Promise.resolve()
  const commitNow = async () => {
    const offset = offsets.committable()
    if (offset === undefined || signal.aborted) return
    const reported = [...outcomes].filter(([finished]) => finished < offset)
    if (reported.length > 0) await reportReplays(reported.map(([, outcome]) => outcome))
    for (const [finished] of reported) outcomes.delete(finished)
    failpoint('feed.committing')
    if (!await guard.save(Number(offset) - 1)) {
      const { topic, partition } = topicPartition
      return fail(new InconsistencyError('Redis has lost the replay-guard state of ' +
        `${topic}[${partition}]; feed rebuilds it by rereading the partition from its beginning`))
    }
    commitOffset(offset)
    offsets.committed(offset)
  }
  return {
    begin: (delivery: FetchedBatch) => {
      commitOffset = delivery.commit
      offsets.add(delivery.messages)
    },
    finish: (offset: bigint, outcome?: ReplayOutcome) => {
      if (outcome !== undefined) outcomes.set(offset, outcome)
      offsets.complete(offset)
    },
    commit: () => {
      // A failed commit is not retried: the next one covers it.
      committing = committing.then(commitNow).catch(() => {})
      return committing
    },
  }
}
