import type { Job, Tallied } from '../jobs/job.ts'
import type { RemainingSteps } from '../jobs/results/finish-job.ts'
import { ENTRY_VALID_MS } from '../money/redis-keys.ts'
import { HeldMessages, type Incoming, readRowCount } from '../runtime/engine/stage.ts'
import type { MessagePosition, RawMessage, TopicPartition } from '../runtime/kafka/bus.ts'
import { boundedCache } from '../runtime/platform/limits.ts'
import type { Clock } from '../runtime/platform/retry.ts'
import { FLUSH_EVERY_MS } from './config.ts'

export type Message = Incoming<'rows.completed'>
export type Messages = readonly Message[]

/** Messages of a partition whose rows are counted. */
export type Counted = {
  readonly messages: readonly Message[]
  readonly tallied: readonly Tallied[]
  readonly countedAtMs: number
  /** They end jobs whose blocks Redis keeps until they are stored. */
  readonly mayWait: boolean
}

/**
 * They are stored, but for refused ones, with the reason; what is left to do for the jobs that
 * ended with them.
 */
export type Stored = Counted & {
  readonly steps: readonly RemainingSteps[]
  readonly refused: ReadonlyMap<Message, string>
}

type Limits = {
  /** Maximum size of the messages of a partition that are held. */
  readonly maxBytes: number
  readonly maxMessages: number
}

/**
 * The blocks of a consumer group that are not settled. The states of a message:
 *
 * 1. held: not counted, until the blocks of its job may end it: the verdicts of a small job follow
 *    its inputs within milliseconds, and one count and one insert of both take half the time;
 * 2. overdue: held at two flushes of its partition, so that it is counted whatever is missing;
 * 3. deferred: counted, and waits for an insert that it shares with others. A batch that may not
 *    wait, or comes after a quiet time, is stored at once and leaves the buffer;
 * 4. stored: inserted, and waits for the flush of its partition that takes it.
 *
 * What is deferred or stored for too long is counted again first.
 *
 * Counted messages and dead letters are released: they are not held any more. A new generation of
 * the group forgets all, as they are delivered again.
 */
export class SettleBuffer {
  readonly #limits: Limits
  readonly #remaining = new RemainingRows()
  readonly #clock: Clock
  readonly #held = new HeldMessages<Message>()
  /** Messages that were held at an earlier call of `overdue`. */
  readonly #seen = new WeakSet<RawMessage>()
  #generation = Symbol('generation')
  #counted: readonly (Counted | Stored)[] = []
  #storedAtMs = -Infinity

  constructor (limits: Limits, clock: Clock) {
    this.#limits = limits
    this.#clock = clock
  }

  /** Changes with each generation of the group. */
  get generation (): symbol {
    return this.#generation
  }

  /** Holds messages of a partition. Returns those that should be counted now. */
  hold (messages: Messages): Messages {
    const [first] = messages
    if (first === undefined) return []
    for (const message of messages) this.#held.add(message)
    const all = this.#held.of(first.raw)
    const { maxBytes, maxMessages } = this.#limits
    const bytes = all.reduce((sum, { raw }) => sum + (raw.value?.length ?? 0), 0)
    if (all.length >= maxMessages || bytes >= maxBytes) return all
    return messagesByJob(all).filter(ofJob => this.#remaining.mayEndJob(ofJob)).flat()
  }

  /** Learns from a count how many rows of its job are unfinished. */
  recordCount (job: Job): void {
    this.#remaining.update(job)
  }

  /** Uncounted messages of a partition that were there at the last call already. */
  overdue (partition: TopicPartition): Messages {
    const all = this.#held.of(partition)
    const late = all.filter(({ raw }) => this.#seen.has(raw))
    for (const { raw } of all) this.#seen.add(raw)
    return late
  }

  /** Messages are counted, or dead letters. */
  release (messages: readonly MessagePosition[]): void {
    this.#held.remove(messages)
  }

  /** Whether counted messages may wait. What comes after a quiet time is stored at once. */
  canDefer (batch: Counted): boolean {
    const isQuiet = this.#counted.length === 0 &&
      this.#clock.now() - this.#storedAtMs >= FLUSH_EVERY_MS
    return batch.mayWait && !isQuiet
  }

  /** Drops a batch of an earlier generation: its messages are delivered again. */
  defer (batch: Counted, generation: symbol): void {
    if (generation === this.#generation) this.#counted = [...this.#counted, batch]
  }

  /** Messages that were counted before are to be counted at the next flush. */
  uncount (batch: Counted): void {
    if (!this.#counted.includes(batch)) return
    this.#counted = this.#counted.filter(other => other !== batch)
    for (const message of batch.messages) this.#held.add(message)
    this.markOverdue(batch.messages)
  }

  /** Held messages are to be counted at the next flush. */
  markOverdue (messages: Messages): void {
    for (const { raw } of messages) this.#seen.add(raw)
  }

  /** Whether the answer of its count is too old to be used. */
  isExpired ({ countedAtMs }: Counted): boolean {
    return this.#clock.now() - countedAtMs > ENTRY_VALID_MS
  }

  /**
   * Stored batches of a partition whose flush comes too late, as it waited for a Redis under
   * recovery, are to be counted and stored once more.
   */
  dropExpired (partition: TopicPartition): void {
    this.#counted = this.#counted.map(batch => {
      if (!isStored(batch) || !isIn(partition)(batch) || !this.isExpired(batch)) return batch
      const { steps: _steps, refused: _refused, ...counted } = batch
      return counted
    })
  }

  /** Counted messages that are not stored. */
  unstored (): readonly Counted[] {
    return this.#counted.filter(batch => !isStored(batch))
  }

  beginStore (): void {
    this.#storedAtMs = this.#clock.now()
  }

  endStore (stored: readonly Stored[]): void {
    const byMessages = new Map(stored.map(batch => [batch.messages, batch]))
    this.#counted = this.#counted.map(batch => byMessages.get(batch.messages) ?? batch)
  }

  /** Whether counted messages of a partition are there, stored or not. */
  hasCounted (partition: TopicPartition): boolean {
    return this.#counted.some(isIn(partition))
  }

  /** Whether an insert lacks some of a partition, as one that began before has: wait for more. */
  hasUnstored (partition: TopicPartition): boolean {
    return this.#counted.some(batch => isIn(partition)(batch) && !isStored(batch))
  }

  /** Takes the stored messages of a partition. */
  takeStored (partition: TopicPartition): readonly Stored[] {
    const taken = this.#counted.filter(isStored).filter(isIn(partition))
    this.#counted = this.#counted.filter(batch => !taken.some(stored => stored === batch))
    return taken
  }

  /** Drops everything: the group has a new generation. */
  forget (): void {
    this.#held.clear()
    this.#generation = Symbol('generation')
    this.#counted = []
  }
}

const isStored = (batch: Counted | Stored): batch is Stored => 'steps' in batch

const isIn = ({ topic, partition }: TopicPartition) => ({ messages: [first] }: Counted) =>
  first?.raw.topic === topic && first.raw.partition === partition

/** Groups messages by job, in their order. */
export function messagesByJob (messages: Messages): readonly Messages[] {
  return [...Map.groupBy(messages, ({ value }) => `${value.tenant} ${value.job}`).values()]
}

/** All rows count as unfinished for a job that the cache has evicted. */
const MAX_COUNTED_JOBS = 10_000

/** The number of unfinished rows of each job that this process has counted rows of. */
class RemainingRows {
  readonly #remaining = boundedCache<number>({ entries: MAX_COUNTED_JOBS })

  /** Stores how many rows of a job are not finished, by its latest count. */
  update ({ id, preflight, counts }: Job): void {
    this.#remaining.set(id, preflight.totalRows - counts.finishedRows)
  }

  /** Whether these blocks may end their job, so that they should not wait for further blocks. */
  mayEndJob (blocks: Messages): boolean {
    const [first] = blocks
    if (first === undefined) return false
    const { job, totalRows } = first.value
    const rows = blocks.reduce((sum, { raw }) => sum + readRowCount(raw.headers), 0)
    return rows >= (this.#remaining.get(job) ?? totalRows)
  }
}
