import type { StageName } from '../../topology.ts'
import {
  type Bus, type Consumption, type FetchBatching, type FetchedBatch, partitionName,
  type RawMessage,
} from '../kafka/bus.ts'
import { type Clock, type Sleep, systemClock, withTimeout } from '../platform/retry.ts'
import { SerialQueues } from '../platform/limits.ts'
import type { Log } from '../platform/log.ts'
import type { Metrics } from '../platform/metrics.ts'
import { logicalTopic, type Subscription } from '../platform/topics.ts'
import {
  type Attempts, createDeadLetters, type PartitionAttempts, UNCOUNTED,
} from './dead-letters.ts'
import {
  createEmitter, dueAtMs, type MessageCodec, type Postponement, readRowCount, type Stage,
} from './stage.ts'
import type { Gate } from './pause.ts'
import { Process, Steps, type Effects, type StepContext } from './process.ts'
import {
  createTenantShares, Offsets, READ_AHEAD_BYTES, TenantQueue, type ReadAhead, type TenantShares,
} from './queue.ts'

export type EngineDeps = {
  readonly bus: Bus
  readonly messageCodec: MessageCodec
  readonly subscriptions: readonly Subscription[]
  readonly metrics: Metrics
  readonly log: Log
  /** Batching of fetches, for stages with expensive effects. */
  readonly fetchBatching?: (subscription: Subscription) => FetchBatching | undefined
  /** Number of consecutive failed decisions that stops the stage; 100 by default. */
  readonly deadLimit?: number
  /** The clock for postponed messages; the clock of this machine by default. */
  readonly clock?: Clock
  readonly effects?: Effects
  /** Interval between two flushes of held messages; 0 disables them. */
  readonly flushHeldMs?: number
  /** Flush once more at the stop, so that what is held does not wait for the next process. */
  readonly flushOnStop?: boolean
  /** Pauses the stage while it is closed; always open by default. */
  readonly gate?: Gate | undefined
  /** Finds messages that end their process; without it, such a message is delivered for ever. */
  readonly attempts?: Attempts
  /** The weight of a tenant in fair scheduling; 1 by default. */
  readonly weightOf?: (tenant: string) => number
  /** Replaced in simulations, which must be reproducible. */
  readonly sleep?: Sleep
  readonly random?: () => number
}

/** A stage whose held messages can be flushed at once. */
export type FlushableStage = {
  /** False before the groups are joined, and while infrastructure is unavailable. */
  readonly ready: () => boolean
  /** Resolves when all batches have stopped at their next step; nothing is committed after it. */
  readonly stop: () => Promise<void>
  readonly flushHeld: () => Promise<void>
}

const FLUSH_HELD_MS = 1_000
const DEAD_LIMIT = 100
/** How long a stop waits for the last flush, and for those that were running. */
const LAST_FLUSH_MS = 1_000
const RUNNING_FLUSHES_MS = 8_000

/**
 * Runs a stage on its topics. A stage that holds messages must be a function, called once per
 * subscription: each consumer group needs its own state, because `forget` is called for each
 * generation of one group. A stateless stage may be passed directly.
 * @throws TypeError for a stage that holds messages of several subscriptions.
 */
export async function runStage<S extends StageName> (
  stage: Stage<S> | ((subscription: Subscription) => Stage<S>), deps: EngineDeps
): Promise<FlushableStage> {
  if (typeof stage !== 'function' && stage.flushHeld !== undefined &&
    deps.subscriptions.length > 1) {
    throw new TypeError(`the stage ${stage.name} holds messages, but its ` +
      `${deps.subscriptions.length} subscriptions share it: pass a function that creates one each`)
  }
  const readAhead = { bytes: 0, maxBytes: READ_AHEAD_BYTES }
  const consumers = deps.subscriptions.map(subscription => {
    const stageOfGroup = typeof stage === 'function' ? stage(subscription) : stage
    // From here on the engine does not need the type of the stage.
    return new StageConsumer(stageOfGroup as unknown as Stage, subscription, deps, readAhead)
  })
  const running: FlushableStage = {
    ready: () => consumers.every(consumer => consumer.ready()),
    flushHeld: async () => { await Promise.all(consumers.map(consumer => consumer.flushHeld())) },
    stop: async () => { await Promise.all(consumers.map(consumer => consumer.stop())) },
  }
  const started = await Promise.allSettled(consumers.map(consumer => consumer.start()))
  const failed = started.find(result => result.status === 'rejected')
  if (failed === undefined) return running
  await running.stop()
  throw failed.reason
}

/** What one generation has of a partition. */
type PartitionWork = {
  readonly offsets: Offsets
  /** The last delivery, which a flush uses. */
  latest: FetchedBatch
  /** They begin with the first delivery. */
  attempts?: Promise<PartitionAttempts>
  isFlushing: boolean
}

/** A delivery while it is processed. */
type Delivery = {
  readonly fetched: FetchedBatch
  readonly work: PartitionWork
  readonly queue: TenantQueue
  readonly attempts: PartitionAttempts
}

/**
 * The consumer of one subscription: splits deliveries into batches, processes and commits them.
 * Deliveries of a partition, and flushes of what the stage holds of it, run one after another.
 */
class StageConsumer {
  readonly #stage: Stage
  readonly #subscription: Subscription
  readonly #deps: EngineDeps
  readonly #clock: Clock
  readonly #steps: Steps
  readonly #process: Process
  readonly #tenants: TenantShares
  readonly #queues = new SerialQueues()
  /**
   * By partition. A new generation begins without any: work of an earlier one goes on with what it
   * had, so it cannot complete messages of this one.
   */
  #partitions = new Map<string, PartitionWork>()
  /**
   * Deliveries in progress, with the time when their oldest message was written or due, and
   * flushes in progress, with the time of their start.
   */
  readonly #ages = new Map<FetchedBatch, number>()
  #consumption: Consumption | undefined
  /** Those that the timer has started. */
  readonly #flushes = new Set<Promise<void>>()
  #flushTimer: NodeJS.Timeout | undefined
  #isStopping = false

  constructor (stage: Stage, subscription: Subscription, deps: EngineDeps, readAhead: ReadAhead) {
    const { bus, messageCodec, metrics, effects, sleep, random, clock = systemClock } = deps
    const log = deps.log.child({ stage: stage.name, group: subscription.group })
    this.#stage = stage
    this.#subscription = subscription
    this.#deps = deps
    this.#clock = clock
    this.#tenants = createTenantShares(readAhead, deps.weightOf)
    this.#steps = new Steps({ metrics, log, effects, sleep, random })
    this.#process = new Process({
      stage,
      messageCodec,
      emitter: createEmitter({ messageCodec, producerOf: bus.producer }),
      deadLetters: createDeadLetters({
        stage: stage.name,
        producer: () => bus.producer('dead'),
        metrics,
        limit: deps.deadLimit ?? DEAD_LIMIT,
        now: clock.now,
      }),
      steps: this.#steps,
      metrics,
      log,
      onCompleted: raw => this.#count(raw),
    })
  }

  async start (): Promise<void> {
    const { bus, metrics, fetchBatching } = this.#deps
    const { group, topics } = this.#subscription
    const labels = { stage: this.#stage.name, group }
    metrics.watch('stage_oldest_age_seconds', labels, () => this.#oldestAgeSeconds())
    metrics.watch('stage_held_messages', labels, () => this.#countPending())
    metrics.watch('stage_blocked', labels, () => this.#steps.stalled())
    this.#consumption = await bus.consume({
      group,
      topics,
      fetchBatching: fetchBatching?.(this.#subscription),
      onDelivery: fetched => {
        const name = partitionName(fetched)
        const work = this.#partitions.get(name) ??
          { offsets: new Offsets(), latest: fetched, isFlushing: false }
        work.latest = fetched
        this.#partitions.set(name, work)
        return this.#queues.take(name, () => this.#deliver(fetched, work))
      },
      onAssigned: () => this.#forget(),
    })
  }

  /** Flushes held messages from time to time; while there are none, no timer wakes the process. */
  #scheduleFlushes (): void {
    const { flushHeldMs = FLUSH_HELD_MS } = this.#deps
    if (this.#isStopping || this.#stage.flushHeld === undefined || flushHeldMs === 0) return
    this.#flushTimer ??= setInterval(() => {
      if (this.#countPending() === 0) return this.#stopTimer()
      const flush = this.flushHeld().finally(() => { this.#flushes.delete(flush) })
      this.#flushes.add(flush)
    }, flushHeldMs).unref()
  }

  #stopTimer (): void {
    clearInterval(this.#flushTimer)
    this.#flushTimer = undefined
  }

  async #endFlushes (): Promise<void> {
    this.#isStopping = true
    this.#stopTimer()
    await withTimeout(Promise.allSettled(this.#flushes), RUNNING_FLUSHES_MS)
  }

  ready (): boolean {
    return this.#consumption?.ready() === true && this.#steps.stalled() === 0
  }

  async stop (): Promise<void> {
    const { flushOnStop, attempts } = this.#deps
    if (flushOnStop === true) await withTimeout(this.flushHeld(), LAST_FLUSH_MS)
    await Promise.all([this.#consumption?.stop(), this.#endFlushes()])
    await attempts?.settled()
  }

  /**
   * Flushes the held messages of all partitions, each after its current delivery. A partition whose
   * last flush still runs is skipped, so that a stalled partition does not block others.
   */
  async flushHeld (): Promise<void> {
    const idle = [...this.#partitions].filter(([, { offsets, isFlushing }]) =>
      offsets.countPending() > 0 && !isFlushing)
    await Promise.all(idle.map(async ([name, work]) => {
      work.isFlushing = true
      await this.#queues.take(name, () => this.#flush(work))
        .finally(() => { work.isFlushing = false })
    }))
  }

  /** The group has a new generation: other processes may have the partitions now. */
  #forget (): void {
    this.#partitions = new Map()
    this.#stage.forget()
  }

  async #deliver (fetched: FetchedBatch, work: PartitionWork): Promise<void> {
    const [first] = fetched.messages
    this.#ages.set(fetched, first === undefined ? this.#clock.now() : dueAtMs(first))
    const { topic = '' } = logicalTopic(fetched.topic) ?? {}
    const isByTenant = this.#stage.byTenant?.some(name => name === topic) === true
    const queue = new TenantQueue(this.#tenants, isByTenant)
    const { batch: usual, batchOf } = this.#stage
    const most = Object.entries(batchOf ?? {}).find(([name]) => name === topic)?.[1] ?? usual
    const add = (messages: readonly RawMessage[]) => {
      // Adds all offsets in order, because messages may be decided in another order.
      work.offsets.add(messages)
      queue.add(messages)
      this.#scheduleFlushes()
    }
    try {
      fetched.signal.throwIfAborted()
      if (this.#deps.gate?.isOpen() === false) await this.#deps.gate.opened(fetched.signal)
      const attempts = await this.#beginAttempts(fetched, work)
      add(fetched.messages)
      for (;;) {
        if (queue.mayReadAhead()) add(fetched.more())
        if (queue.isEmpty()) return
        this.#ages.set(fetched, queue.oldestDueAtMs() ?? this.#clock.now())
        const batch = queue.take(attempts.isCareful() ? 1 : most)
        if (batch.length === 0) {
          await queue.released()
          continue
        }
        const postponed = await this.#work(batch, { fetched, work, queue, attempts })
        if (postponed === undefined) continue
        const fromOffset = queue.lowestOffset(postponed.postpone.raw.offset)
        work.offsets.rewind(fromOffset)
        return fetched.redeliver(fromOffset, Math.max(0, postponed.untilMs - this.#clock.now()))
      }
    } catch (error) {
      if (!fetched.signal.aborted) throw error
    } finally {
      queue.clear()
      this.#ages.delete(fetched)
    }
  }

  async #beginAttempts (fetched: FetchedBatch, work: PartitionWork): Promise<PartitionAttempts> {
    const { attempts } = this.#deps
    const { topic, partition, messages: [first], signal } = fetched
    if (attempts === undefined || first === undefined) return UNCOUNTED
    const { group } = this.#subscription
    work.attempts ??= attempts.begin({ group, topic, partition }, first.offset, signal)
    return await work.attempts
  }

  /**
   * Processes a batch and commits its completed messages; postponed messages are delivered again.
   * While the stage is paused, the batch waits here: heartbeats continue, the age of the batch is
   * reported, and nothing has to be fetched again.
   */
  async #work (
    batch: readonly RawMessage[], { fetched, work, queue, attempts }: Delivery
  ): Promise<Postponement | undefined> {
    const [first] = batch
    const at = this.#contextOf(fetched, work, first?.offset)
    try {
      if (this.#deps.gate?.isOpen() === false) await this.#deps.gate.opened(fetched.signal)
      const postponed = first !== undefined && attempts.isCareful()
        ? await attempts.decideAlone(first, isPoison =>
          this.#process.run(batch, { ...at, isPoison }))
        : await this.#process.run(batch, at)
      await this.#commit(fetched, work, at)
      return postponed
    } finally {
      queue.release(batch)
    }
  }

  /** It is skipped while the stage is paused and after the end of the generation. */
  async #flush (work: PartitionWork): Promise<void> {
    const fetched = work.latest
    if (fetched.signal.aborted || this.#deps.gate?.isOpen() === false) return
    this.#ages.set(fetched, this.#clock.now())
    const at = this.#contextOf(fetched, work)
    try {
      if (await this.#process.flushHeld(at)) await this.#commit(fetched, work, at)
    } catch (error) {
      if (!fetched.signal.aborted) throw error
    } finally {
      this.#ages.delete(fetched)
    }
  }

  /**
   * Commits up to the lowest pending message. After a crash before the broker has it, messages are
   * delivered again; all effects are idempotent.
   */
  async #commit (
    fetched: FetchedBatch, { offsets }: PartitionWork, at: StepContext
  ): Promise<void> {
    const offset = offsets.committable()
    if (offset === undefined) return
    await this.#steps.run('commit', async () => {
      fetched.commit(offset)
      offsets.committed(offset)
    }, at)
  }

  #contextOf (
    { topic, partition, signal }: FetchedBatch, { offsets }: PartitionWork, offset = 0n
  ) {
    const { group } = this.#subscription
    return {
      location: { stage: this.#stage.name, group, topic, partition, offset },
      signal,
      complete: (raw: RawMessage) => {
        // A decision is about messages of one partition; another one may have this offset, too.
        if (raw.topic === topic && raw.partition === partition) offsets.complete(raw.offset)
      },
    }
  }

  #countPending (): number {
    return [...this.#partitions.values()]
      .reduce((sum, { offsets }) => sum + offsets.countPending(), 0)
  }

  /** Age of the oldest message in progress or late, in seconds; 0 when idle. */
  #oldestAgeSeconds (): number {
    const oldestMs = Math.min(this.#stage.heldSinceMs?.() ?? Infinity, ...this.#ages.values())
    return Math.max(0, this.#clock.now() - oldestMs) / 1_000
  }

  /** Counts a completed message and its rows. */
  #count ({ headers }: RawMessage): void {
    const { lane = '', service = '' } = this.#subscription
    const labels = { stage: this.#stage.name, lane, service }
    this.#deps.metrics.count('stage_chunks_total', labels)
    this.#deps.metrics.count('stage_rows_total', labels, readRowCount(headers))
  }
}
