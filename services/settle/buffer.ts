import { LRUCache } from 'lru-cache'
import { HeldMessages, type Incoming, rowCountOf } from '../runtime/engine/stage.ts'
import type { Job } from '../jobs/job.ts'
import type { Tallied } from '../jobs/store-types.ts'
import type { RawMessage } from '../runtime/kafka/bus.ts'
import type { Clock } from '../runtime/platform/clock.ts'
import type { Finishing } from '../jobs/results/finish-job.ts'

/** How often held blocks are stored, in milliseconds. */
export const STORE_EVERY_MS = 100

type Message = Incoming<'rows.completed'>
type Partition = Pick<RawMessage, 'topic' | 'partition'>

/** Messages of a partition whose rows are counted. */
export type Counted = {
  /** Of the consumer group, see `SettleBuffer`. */
  readonly generation: symbol
  readonly messages: readonly Message[]
  readonly tallied: readonly Tallied[]
  /** They end jobs whose blocks Redis keeps until they are stored. */
  readonly mayWait: boolean
}

/** They are stored; what is left to do for the jobs that ended with them. */
export type Stored = Counted & { readonly finishings: readonly Finishing[] }

type Limits = {
  /** Maximum size of the messages of a partition that are held. */
  readonly maxBytes: number
  readonly maxMessages: number
}

/**
 * The blocks of a consumer group that are not settled. First they are held uncounted: those of a
 * job wait until they may end it, as the verdicts of a small job follow its inputs within
 * milliseconds, and one count and one insert of both take half the time. Then they are counted, and
 * may wait for an insert that they share with others, and for the next flush.
 */
export class SettleBuffer {
  readonly #limits: Limits
  readonly #remaining: Pick<RemainingRows, 'mayEndJob'>
  readonly #clock: Clock
  readonly #held = new HeldMessages<Message>()
  /** Messages that were held at an earlier call of `overdue`. */
  readonly #seen = new WeakSet<RawMessage>()
  #generation = Symbol('generation')
  #counted: readonly (Counted | Stored)[] = []
  #storedAtMs = -Infinity

  constructor (limits: Limits, remaining: Pick<RemainingRows, 'mayEndJob'>, clock: Clock) {
    this.#limits = limits
    this.#remaining = remaining
    this.#clock = clock
  }

  /** Changes with each generation of the group. */
  get generation (): symbol {
    return this.#generation
  }

  /** Holds messages of a partition. Returns those that should be counted now. */
  hold (messages: readonly Message[]): readonly Message[] {
    const [first] = messages
    if (first === undefined) return []
    for (const message of messages) this.#held.add(message)
    const all = this.#held.of(first.raw)
    const { maxBytes, maxMessages } = this.#limits
    const bytes = all.reduce((sum, { raw }) => sum + (raw.value?.length ?? 0), 0)
    if (all.length >= maxMessages || bytes >= maxBytes) return all
    return messagesByJob(all)
      .filter(ofJob => this.#remaining.mayEndJob(ofJob.map(({ raw }) => raw))).flat()
  }

  /** Uncounted messages of a partition that were there at the last call already. */
  overdue (partition: Partition): readonly Message[] {
    const all = this.#held.of(partition)
    const late = all.filter(({ raw }) => this.#seen.has(raw))
    for (const { raw } of all) this.#seen.add(raw)
    return late
  }

  /** Messages are counted, or dead letters. */
  release (messages: readonly Pick<RawMessage, 'topic' | 'partition' | 'offset'>[]): void {
    this.#held.remove(messages)
  }

  /** Whether counted messages may wait. What comes after a quiet time is stored at once. */
  canDefer (batch: Counted): boolean {
    const isQuiet = this.#counted.length === 0 &&
      this.#clock.now() - this.#storedAtMs >= STORE_EVERY_MS
    return batch.mayWait && !isQuiet
  }

  /** Drops a batch of an earlier generation: its messages are delivered again. */
  defer (batch: Counted): void {
    if (batch.generation === this.#generation) this.#counted = [...this.#counted, batch]
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
  hasCounted (partition: Partition): boolean {
    return this.#counted.some(isIn(partition))
  }

  /** Whether an insert lacks some of a partition, as one that began before has: wait for more. */
  hasUnstored (partition: Partition): boolean {
    return this.#counted.some(batch => isIn(partition)(batch) && !isStored(batch))
  }

  /** Takes the stored messages of a partition. */
  takeStored (partition: Partition): readonly Stored[] {
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

const isStored = (batch: Counted | Stored): batch is Stored => 'finishings' in batch

const isIn = ({ topic, partition }: Partition) => ({ messages: [first] }: Counted) =>
  first?.raw.topic === topic && first.raw.partition === partition

/** Groups messages by job, in their order. */
export function messagesByJob (messages: readonly Message[]): readonly (readonly Message[])[] {
  return [...Map.groupBy(messages, ({ value }) => `${value.tenant} ${value.job}`).values()]
}

/** Concurrent calls share a run of the action. */
export function shareRunning (action: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> | undefined
  return () => {
    running ??= action().finally(() => { running = undefined })
    return running
  }
}

/** All rows count as unfinished for a job that the cache has evicted. */
const MAX_JOBS = 10_000

/** The number of unfinished rows of each job that this process has counted rows of. */
export class RemainingRows {
  // `max` would allocate memory for all entries up front; `maxSize` does not.
  readonly #remaining = new LRUCache<string, number>({
    maxSize: MAX_JOBS, sizeCalculation: () => 1,
  })

  /** Stores how many rows of a job are not finished, by its latest count. */
  update ({ id, preflight, counts }: Pick<Job, 'id' | 'preflight' | 'counts'>): void {
    this.#remaining.set(id, preflight.totalRows - counts.finishedRows)
  }

  /** Whether these blocks may end a job, so that they should not wait for further blocks. */
  mayEndJob (blocks: readonly Pick<RawMessage, 'headers'>[]): boolean {
    const arrived = new Map<string, number>()
    for (const { headers } of blocks) {
      const { job = '', totalRows } = headers
      const rows = (arrived.get(job) ?? 0) + rowCountOf(headers)
      arrived.set(job, rows)
      if (rows >= (this.#remaining.get(job) ?? Number(totalRows))) return true
    }
    return false
  }
}
