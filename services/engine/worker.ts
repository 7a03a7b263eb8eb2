import { UNCOUNTED, type Attempts, type PartitionAttempts } from './attempts.ts'
import type { Clock } from '../platform/clock.ts'
import type { ConsumeOptions, FetchedBatch, RawMessage } from '../kafka/bus.ts'
import {
  createCommit, createCompletionCount, type Commit, createOffsets, type Offsets,
} from './offsets.ts'
import { OPEN_GATE, type Gate } from './pause.ts'
import { createProcess, type Process } from './process.ts'
import { createFlushHeld } from './flush-held.ts'
import type { ProcessDeps } from './batch.ts'
import type { StepContext } from './steps.ts'
import {
  createTenantQueue, createTenantShares, type ReadAhead, type TenantQueue,
} from './tenant-queue.ts'
import { createSerialQueues } from '../platform/serial-queues.ts'
import { logicalTopic, type Subscription } from '../platform/topics.ts'

export type Worker = Pick<ConsumeOptions, 'onDelivery' | 'onAssigned'> & {
  /**
   * Flushes held messages that need no further message, and commits. Skips partitions with a flush
   * in progress, so that a stalled partition does not block others.
   */
  readonly flushHeld: () => Promise<void>
  /** Age of the oldest message in progress or late, in seconds; 0 when idle. */
  readonly oldestAgeSeconds: () => number
  /** Number of messages that are not completed. */
  readonly unfinished: () => number
}

export type WorkerDeps = Omit<ProcessDeps, 'onCompleted'> & {
  readonly subscription: Subscription
  readonly clock: Clock
  /** No batch starts while it is closed. */
  readonly gate?: Gate | undefined
  readonly readAhead: ReadAhead
  readonly weightOf?: ((tenant: string) => number) | undefined
  readonly attempts?: Attempts | undefined
}

type Messages = readonly RawMessage[]

/** One consumer of a stage: splits deliveries into batches, processes and commits them. */
export function createWorker (deps: WorkerDeps): Worker {
  const { stage, subscription: { group }, clock, gate = OPEN_GATE } = deps
  const processing = { ...deps, onCompleted: createCompletionCount(deps) }
  const commit = createCommit(deps)
  const work = createBatchProcessor(createProcess(processing), commit, gate)
  const ages = createAgeTracker(clock, stage.heldSinceMs)
  let current = createOffsets()
  const atOf = ({ topic, partition, signal }: FetchedBatch, offset: bigint): StepContext =>
    ({ location: { stage: stage.name, group, topic, partition, offset }, signal })
  const flush = createFlushHeld(processing)
  const partitionQueues = createPartitionQueues(async delivery => {
    const offsets = current
    const at = atOf(delivery, 0n)
    if (await flush({ ...at, complete: offsets.complete })) await commit(delivery, offsets, at)
  }, gate, ages)
  const queueOf = createTenantQueues(deps)
  const partitionAttempts = createPartitionAttempts(deps)
  const onDelivery = async (delivery: FetchedBatch): Promise<void> => {
    ages.begin(delivery, delivery.messages[0]?.timestampMs)
    // A new generation has new offsets, so work of the old one cannot complete messages of it.
    const offsets = current
    const queue = queueOf(delivery, offsets)
    try {
      delivery.signal.throwIfAborted()
      if (!gate.isOpen()) await gate.opened(delivery.signal)
      const attempts = await partitionAttempts.find(delivery)
      queue.begin()
      while (queue.isOpen()) {
        ages.begin(delivery, queue.oldestWrittenMs())
        const batch = queue.take(attempts.isCareful() ? 1 : stage.batch)
        if (batch.length === 0) {
          await queue.released()
          continue
        }
        const at = atOf(delivery, batch[0]?.offset ?? 0n)
        const postponed = await work(batch, delivery, { offsets, at, queue, attempts })
        if (postponed === undefined) continue
        const fromOffset = queue.lowestOffset(postponed.postpone.raw.offset)
        offsets.rewind(delivery, fromOffset)
        const afterMs = Math.max(0, postponed.untilMs - clock.now())
        return delivery.redeliver(fromOffset, afterMs)
      }
    } catch (error) {
      if (!delivery.signal.aborted) throw error
    } finally {
      queue.clear()
      ages.end(delivery)
    }
  }
  return {
    onDelivery: delivery => partitionQueues.take(delivery, () => onDelivery(delivery)),
    flushHeld: partitionQueues.flushHeld,
    onAssigned: () => {
      partitionQueues.forget()
      partitionAttempts.forget()
      current = createOffsets()
      stage.forget()
    },
    oldestAgeSeconds: ages.oldestSeconds,
    unfinished: () => current.countPending(),
  }
}

type AgeTracker = ReturnType<typeof createAgeTracker>

/**
 * Deliveries in progress, with the time when their oldest message was written, and flushes in
 * progress, with the time of their start.
 */
function createAgeTracker (clock: Clock, heldSinceMs = () => Infinity) {
  const ages = new Map<FetchedBatch, number>()
  return {
    begin: (delivery: FetchedBatch, oldestMs = clock.now()): void => {
      ages.set(delivery, oldestMs)
    },
    end: (delivery: FetchedBatch): void => { ages.delete(delivery) },
    oldestSeconds: (): number =>
      Math.max(0, clock.now() - Math.min(heldSinceMs(), ...ages.values())) / 1_000,
  }
}

/** The attempts at each partition in a generation, which begin with its first delivery. */
function createPartitionAttempts ({ attempts, subscription: { group } }: WorkerDeps) {
  const begun = new Map<string, Promise<PartitionAttempts>>()
  return {
    find: async ({ topic, partition, messages, signal }: FetchedBatch) => {
      const [first] = messages
      if (attempts === undefined || first === undefined) return UNCOUNTED
      const name = `${topic}:${partition}`
      const started = begun.get(name) ??
        attempts.begin({ group, topic, partition }, first.offset, signal)
      begun.set(name, started)
      return await started
    },
    forget: () => begun.clear(),
  }
}

/** The messages of a delivery and, for fair scheduling of tenants, those fetched during it. */
function createTenantQueues ({ stage, readAhead, weightOf }: WorkerDeps) {
  const shares = createTenantShares(readAhead, weightOf)
  return (delivery: FetchedBatch, offsets: Offsets) => {
    const { topic = '' } = logicalTopic(delivery.topic) ?? {}
    const isByTenant = stage.byTenant?.some(one => one === topic) === true
    const queue = createTenantQueue(shares, isByTenant)
    const add = (messages: Messages) => {
      // Adds all offsets in order, because messages may be decided in another order.
      offsets.add(messages)
      queue.add(messages)
    }
    return {
      ...queue,
      begin: () => add(delivery.messages),
      isOpen: () => {
        if (isByTenant && readAhead.bytes < readAhead.maxBytes) add(delivery.more())
        return !queue.isEmpty()
      },
    }
  }
}

type BatchContext = {
  readonly offsets: Offsets
  readonly at: StepContext
  readonly queue: Pick<TenantQueue, 'release'>
  readonly attempts: PartitionAttempts
}

/**
 * Processes a batch and commits its completed messages; postponed messages are delivered again.
 * While the stage is paused, the batch waits here: heartbeats continue, the age of the batch is
 * reported, and nothing has to be fetched again.
 */
function createBatchProcessor (process: Process, commit: Commit, gate: Gate) {
  return async (batch: Messages, delivery: FetchedBatch, context: BatchContext) => {
    const { offsets, at, queue, attempts } = context
    const { complete } = offsets
    const [first] = batch
    try {
      if (!gate.isOpen()) await gate.opened(delivery.signal)
      const postponed = first !== undefined && attempts.isCareful()
        ? await attempts.decideAlone(first, isPoison =>
          process(batch, { ...at, complete, isPoison }))
        : await process(batch, { ...at, complete })
      await commit(delivery, offsets, at)
      return postponed
    } finally {
      queue.release(batch)
    }
  }
}

/**
 * Serializes deliveries and flushes of held messages per partition. A flush uses the last delivery
 * of its partition; it is skipped while the stage is paused and after the end of the generation.
 */
function createPartitionQueues (
  flush: (delivery: FetchedBatch) => Promise<void>, gate: Gate, ages: AgeTracker
) {
  const queues = createSerialQueues()
  const latest = new Map<string, FetchedBatch>()
  const flushing = new Set<string>()
  const flushIfOpen = async (delivery: FetchedBatch) => {
    if (delivery.signal.aborted || !gate.isOpen()) return
    ages.begin(delivery)
    try {
      await flush(delivery)
    } catch (error) {
      if (!delivery.signal.aborted) throw error
    } finally {
      ages.end(delivery)
    }
  }
  return {
    take: <T>(delivery: FetchedBatch, action: () => Promise<T>): Promise<T> => {
      const name = `${delivery.topic}:${delivery.partition}`
      latest.set(name, delivery)
      return queues.take(name, action)
    },
    flushHeld: async (): Promise<void> => {
      const idle = [...latest].filter(([name]) => !flushing.has(name))
      await Promise.all(idle.map(async ([name, delivery]) => {
        flushing.add(name)
        await queues.take(name, () => flushIfOpen(delivery)).finally(() => flushing.delete(name))
      }))
    },
    forget: (): void => latest.clear(),
  }
}
