import { bulkhead } from 'cockatiel'
import type { Clock } from '../platform/clock.ts'
import type { ConsumeOptions, Delivery, DeliveryOutcome, RawMessage } from '../kafka/bus.ts'
import { createCommit, createCount, type Commit } from './commit.ts'
import { createOffsets, type Offsets } from './offsets.ts'
import { OPEN_GATE, type Gate } from './pause.ts'
import { createProcess, type Process } from './process.ts'
import { createFlushHeld, createTurns } from './flush-held.ts'
import type { ProcessDeps } from './batch.ts'
import type { At } from './steps.ts'
import {
  createTenantQueue, createTenantShares, type ReadAhead,
} from './tenant-queue.ts'
import { logicalTopic, type Subscription } from '../platform/topics.ts'

export type Worker = Pick<ConsumeOptions, 'onDelivery' | 'onAssigned'> & {
  /**
   * Lets held messages go that wait for nothing more, and commits: of every partition of which that
   * is not under way already, so that one that waits for infrastructure holds up no other.
   */
  readonly release: () => Promise<void>
  /** Seconds since the oldest message in work was written; 0 when idle. */
  readonly ages: () => number
  /** Messages whose offsets are not committed. */
  readonly unfinished: () => number
}

export type WorkerDeps = Omit<ProcessDeps, 'finished'> & {
  readonly subscription: Subscription
  readonly clock: Clock
  /** Nothing further is begun while it is closed. */
  readonly gate?: Gate | undefined
  readonly ahead: ReadAhead
  readonly weightOf?: ((tenant: string) => number) | undefined
}

type Messages = readonly RawMessage[]

/** One consumer of a stage: cuts deliveries into batches, processes and commits them. */
export function createWorker (deps: WorkerDeps): Worker {
  const { stage, subscription: { group }, clock, gate = OPEN_GATE } = deps
  const processing = { ...deps, finished: createCount(deps) }
  const commit = createCommit(deps)
  const work = createWork(createProcess(processing), commit, gate)
  const inWork = createInWork(clock)
  let current = createOffsets()
  const atOf = ({ topic, partition, signal }: Delivery, offset: bigint): At =>
    ({ place: { stage: stage.name, group, topic, partition, offset }, signal })
  const letGo = createFlushHeld(processing)
  const inTurns = createInTurns(async delivery => {
    const offsets = current
    const at = atOf(delivery, 0n)
    if (await letGo({ ...at, finish: offsets.finish })) await commit(delivery, offsets, at)
  }, gate)
  const slots = createSlots(deps)
  const queueOf = createQueues(deps)
  const onDelivery = async (delivery: Delivery): Promise<DeliveryOutcome> => {
    // A new generation begins with offsets of its own, so whatever still runs for the old one
    // cannot be taken for work done in the new one.
    const offsets = current
    const queue = queueOf(delivery, offsets)
    try {
      delivery.signal.throwIfAborted()
      if (!gate.isOpen()) await gate.opened(delivery.signal)
      queue.begin()
      while (queue.isOpen()) {
        inWork.begin(delivery, queue.oldestMs())
        const batch = queue.take(stage.batch)
        const at = atOf(delivery, batch[0]?.offset ?? 0n)
        const postponed = await work(batch, delivery, { offsets, at })
        if (postponed === undefined) continue
        const fromOffset = queue.lowest(postponed.postpone.raw.offset)
        offsets.rewind(delivery, fromOffset)
        return { go: 'again', fromOffset, afterMs: Math.max(0, postponed.untilMs - clock.now()) }
      }
    } catch (error) {
      if (!delivery.signal.aborted) throw error
    } finally {
      queue.clear()
      inWork.end(delivery)
    }
    return { go: 'next' }
  }
  return {
    onDelivery: delivery => inTurns.take(delivery, () => {
      inWork.begin(delivery, delivery.messages[0]?.timestampMs)
      return slots(() => onDelivery(delivery))
    }),
    release: inTurns.release,
    onAssigned: () => {
      inTurns.forget()
      current = createOffsets()
      stage.forget()
    },
    ages: inWork.oldestSeconds,
    unfinished: () => current.unfinished(),
  }
}

/** What is handed over and not yet processed, by when the first message of it was written. */
function createInWork (clock: Clock) {
  const inWork = new Map<Delivery, number>()
  return {
    begin: (delivery: Delivery, oldestMs = clock.now()): void => {
      inWork.set(delivery, oldestMs)
    },
    end: (delivery: Delivery): void => { inWork.delete(delivery) },
    oldestSeconds: (): number => inWork.size === 0
      ? 0
      : Math.max(0, clock.now() - Math.min(...inWork.values())) / 1_000,
  }
}

/** Partitions wait for each other only where the stage says so. */
function createSlots ({ stage, subscription }: WorkerDeps) {
  const atOnce = subscription.lane === 'bulk' ? stage.bulkAtOnce : undefined
  const slots = atOnce === undefined ? undefined : bulkhead(atOnce, Number.MAX_SAFE_INTEGER)
  return <T>(action: () => Promise<T>): Promise<T> =>
    slots === undefined ? action() : slots.execute(action)
}

/** What a delivery brings, and what comes meanwhile where tenants have their turns. */
function createQueues ({ stage, ahead, weightOf }: WorkerDeps) {
  const shares = createTenantShares(ahead, weightOf)
  return (delivery: Delivery, offsets: Offsets) => {
    const { topic = '' } = logicalTopic(delivery.topic) ?? {}
    const isByTenant = stage.byTenant?.some(one => one === topic) === true
    const queue = createTenantQueue(shares, isByTenant)
    const add = (messages: Messages) => {
      // All of them in order, as what is decided first need not be what came first.
      offsets.begin(messages)
      queue.add(messages)
    }
    return {
      ...queue,
      begin: () => add(delivery.messages),
      isOpen: () => {
        if (isByTenant && ahead.bytes < ahead.mostBytes) add(delivery.more())
        return !queue.isEmpty()
      },
    }
  }
}

type Standing = { readonly offsets: Offsets, readonly at: At }

/**
 * Processes a batch and commits what is finished; what is postponed comes once more. While the
 * stage is paused a batch is waited with in hand: heartbeats go on, its age is told as ever, and
 * nothing has to be fetched anew.
 */
function createWork (process: Process, commit: Commit, gate: Gate) {
  return async (batch: Messages, delivery: Delivery, { offsets, at }: Standing) => {
    if (!gate.isOpen()) await gate.opened(delivery.signal)
    const postponed = await process(batch, { ...at, finish: offsets.finish })
    await commit(delivery, offsets, at)
    return postponed
  }
}

/**
 * Lets go of held messages between deliveries, by the last one of each partition: never beside one,
 * not while the stage is paused, and no more once its generation is over.
 */
function createInTurns (release: (delivery: Delivery) => Promise<void>, gate: Gate) {
  const turns = createTurns()
  const latest = new Map<string, Delivery>()
  const underWay = new Set<string>()
  const releaseOf = async (delivery: Delivery) => {
    try {
      if (!delivery.signal.aborted && gate.isOpen()) await release(delivery)
    } catch (error) {
      if (!delivery.signal.aborted) throw error
    }
  }
  return {
    take: <T>(delivery: Delivery, action: () => Promise<T>): Promise<T> => {
      const name = `${delivery.topic}:${delivery.partition}`
      latest.set(name, delivery)
      return turns.take(name, action)
    },
    release: async (): Promise<void> => {
      const idle = [...latest].filter(([name]) => !underWay.has(name))
      await Promise.all(idle.map(async ([name, delivery]) => {
        underWay.add(name)
        await turns.take(name, () => releaseOf(delivery)).finally(() => underWay.delete(name))
      }))
    },
    forget: (): void => latest.clear(),
  }
}
