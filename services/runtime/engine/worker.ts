import type { FetchedBatch, RawMessage } from '../kafka/bus.ts'
import type { Clock } from '../platform/clock.ts'
import { createSerialQueues } from '../platform/limits.ts'
import { logicalTopic, type Subscription } from '../platform/topics.ts'
import { UNCOUNTED, type Attempts, type PartitionAttempts } from './attempts.ts'
import { Offsets } from './offsets.ts'
import { OPEN_GATE, type Gate } from './pause.ts'
import { Process, type ProcessDeps } from './process.ts'
import { type Postponement, rowCountOf } from './stage.ts'
import type { StepContext } from './steps.ts'
import {
  createTenantShares, TenantQueue, type ReadAhead, type TenantShares,
} from './tenant-queue.ts'

export type WorkerDeps = Omit<ProcessDeps, 'onCompleted'> & {
  readonly subscription: Subscription
  readonly clock: Clock
  /** No batch starts while it is closed. */
  readonly gate?: Gate | undefined
  readonly readAhead: ReadAhead
  readonly weightOf?: ((tenant: string) => number) | undefined
  readonly attempts?: Attempts | undefined
}

/** A delivery while it is processed. */
type Delivery = {
  readonly fetched: FetchedBatch
  /** Those of the generation in which it began. */
  readonly offsets: Offsets
  readonly queue: TenantQueue
  readonly attempts: PartitionAttempts
}

/**
 * One consumer of a stage: splits deliveries into batches, processes and commits them. Deliveries
 * of a partition, and flushes of what the stage holds of it, run one after another.
 */
export class Worker {
  readonly #deps: WorkerDeps
  readonly #gate: Gate
  readonly #process: Process
  readonly #tenants: TenantShares
  readonly #queues = createSerialQueues()
  #offsets = new Offsets()
  /**
   * Deliveries in progress, with the time when their oldest message was written, and flushes in
   * progress, with the time of their start.
   */
  readonly #ages = new Map<FetchedBatch, number>()
  /** By partition, the last delivery, which a flush uses. */
  readonly #latest = new Map<string, FetchedBatch>()
  /** Partitions with a flush in progress. */
  readonly #flushing = new Set<string>()
  /** By partition, the attempts in this generation, which begin with its first delivery. */
  readonly #attempts = new Map<string, Promise<PartitionAttempts>>()

  constructor (deps: WorkerDeps) {
    this.#deps = deps
    this.#gate = deps.gate ?? OPEN_GATE
    this.#process = new Process({ ...deps, onCompleted: raw => this.#count(raw) })
    this.#tenants = createTenantShares(deps.readAhead, deps.weightOf)
  }

  onDelivery (fetched: FetchedBatch): Promise<void> {
    const name = partitionOf(fetched)
    this.#latest.set(name, fetched)
    return this.#queues.take(name, () => this.#deliver(fetched))
  }

  /** The group has a new generation: other processes may have the partitions now. */
  onAssigned (): void {
    this.#latest.clear()
    this.#attempts.clear()
    this.#offsets = new Offsets()
    this.#deps.stage.forget()
  }

  /**
   * Flushes held messages that need no further message, and commits. Skips partitions with a flush
   * in progress, so that a stalled partition does not block others.
   */
  async flushHeld (): Promise<void> {
    const idle = [...this.#latest].filter(([name]) => !this.#flushing.has(name))
    await Promise.all(idle.map(async ([name, fetched]) => {
      this.#flushing.add(name)
      await this.#queues.take(name, () => this.#flushIfOpen(fetched))
        .finally(() => this.#flushing.delete(name))
    }))
  }

  /** Age of the oldest message in progress or late, in seconds; 0 when idle. */
  oldestAgeSeconds (): number {
    const { clock, stage } = this.#deps
    const oldestMs = Math.min(stage.heldSinceMs?.() ?? Infinity, ...this.#ages.values())
    return Math.max(0, clock.now() - oldestMs) / 1_000
  }

  /** Number of messages that are not completed. */
  unfinished (): number {
    return this.#offsets.countPending()
  }

  async #deliver (fetched: FetchedBatch): Promise<void> {
    const { stage, clock } = this.#deps
    this.#ages.set(fetched, fetched.messages[0]?.timestampMs ?? clock.now())
    // A new generation has new offsets, so work of the old one cannot complete messages of it.
    const offsets = this.#offsets
    const { topic = '' } = logicalTopic(fetched.topic) ?? {}
    const isByTenant = stage.byTenant?.some(name => name === topic) === true
    const queue = new TenantQueue(this.#tenants, isByTenant)
    const add = (messages: readonly RawMessage[]) => {
      // Adds all offsets in order, because messages may be decided in another order.
      offsets.add(messages)
      queue.add(messages)
    }
    try {
      fetched.signal.throwIfAborted()
      if (!this.#gate.isOpen()) await this.#gate.opened(fetched.signal)
      const attempts = await this.#beginAttempts(fetched)
      add(fetched.messages)
      for (;;) {
        if (queue.mayReadAhead()) add(fetched.more())
        if (queue.isEmpty()) return
        this.#ages.set(fetched, queue.oldestWrittenMs() ?? clock.now())
        const batch = queue.take(attempts.isCareful() ? 1 : stage.batch)
        if (batch.length === 0) {
          await queue.released()
          continue
        }
        const postponed = await this.#work(batch, { fetched, offsets, queue, attempts })
        if (postponed === undefined) continue
        const fromOffset = queue.lowestOffset(postponed.postpone.raw.offset)
        offsets.rewind(fetched, fromOffset)
        return fetched.redeliver(fromOffset, Math.max(0, postponed.untilMs - clock.now()))
      }
    } catch (error) {
      if (!fetched.signal.aborted) throw error
    } finally {
      queue.clear()
      this.#ages.delete(fetched)
    }
  }

  /**
   * Processes a batch and commits its completed messages; postponed messages are delivered again.
   * While the stage is paused, the batch waits here: heartbeats continue, the age of the batch is
   * reported, and nothing has to be fetched again.
   */
  async #work (
    batch: readonly RawMessage[], { fetched, offsets, queue, attempts }: Delivery
  ): Promise<Postponement | undefined> {
    const [first] = batch
    const at = this.#at(fetched, first?.offset ?? 0n)
    const complete = (raw: RawMessage) => offsets.complete(raw)
    try {
      if (!this.#gate.isOpen()) await this.#gate.opened(fetched.signal)
      const postponed = first !== undefined && attempts.isCareful()
        ? await attempts.decideAlone(first, isPoison =>
          this.#process.run(batch, { ...at, complete, isPoison }))
        : await this.#process.run(batch, { ...at, complete })
      await this.#commit(fetched, offsets, at)
      return postponed
    } finally {
      queue.release(batch)
    }
  }

  /** It is skipped while the stage is paused and after the end of the generation. */
  async #flushIfOpen (fetched: FetchedBatch): Promise<void> {
    if (fetched.signal.aborted || !this.#gate.isOpen()) return
    this.#ages.set(fetched, this.#deps.clock.now())
    try {
      await this.#flush(fetched)
    } catch (error) {
      if (!fetched.signal.aborted) throw error
    } finally {
      this.#ages.delete(fetched)
    }
  }

  async #flush (fetched: FetchedBatch): Promise<void> {
    const offsets = this.#offsets
    const at = this.#at(fetched, 0n)
    const complete = (raw: RawMessage) => offsets.complete(raw)
    if (await this.#process.flushHeld({ ...at, complete })) {
      await this.#commit(fetched, offsets, at)
    }
  }

  /**
   * Commits up to the lowest pending message. After a crash before the broker has it, messages are
   * delivered again; all effects are idempotent.
   */
  async #commit (fetched: FetchedBatch, offsets: Offsets, at: StepContext): Promise<void> {
    const offset = offsets.committable(fetched)
    if (offset === undefined) return
    await this.#deps.steps.run('commit', async () => {
      fetched.commit(offset)
      offsets.committed(fetched, offset)
    }, at)
  }

  async #beginAttempts (fetched: FetchedBatch): Promise<PartitionAttempts> {
    const { attempts, subscription: { group } } = this.#deps
    const { topic, partition, messages: [first], signal } = fetched
    if (attempts === undefined || first === undefined) return UNCOUNTED
    const name = partitionOf(fetched)
    const begun = this.#attempts.get(name) ??
      attempts.begin({ group, topic, partition }, first.offset, signal)
    this.#attempts.set(name, begun)
    return await begun
  }

  #at ({ topic, partition, signal }: FetchedBatch, offset: bigint): StepContext {
    const { stage, subscription: { group } } = this.#deps
    return { location: { stage: stage.name, group, topic, partition, offset }, signal }
  }

  /** Counts a completed message and its rows. */
  #count ({ headers }: RawMessage): void {
    const { stage, metrics, subscription: { lane = '', service = '' } } = this.#deps
    const labels = { stage: stage.name, lane, service }
    metrics.count('stage_chunks_total', labels)
    metrics.count('stage_rows_total', labels, rowCountOf(headers))
  }
}

const partitionOf = ({ topic, partition }: FetchedBatch) => `${topic}:${partition}`
