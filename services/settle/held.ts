import { LRUCache } from 'lru-cache'
import { createHeldMessages } from '../engine/held-messages.ts'
import { type Incoming, rowCountOf } from '../engine/stage.ts'
import type { Job } from '../jobs/job.ts'
import type { Tallied } from '../jobs/store-types.ts'
import type { RawMessage } from '../kafka/bus.ts'
import type { Clock } from '../platform/clock.ts'
import type { Finishing } from '../results/finish-job.ts'

/** How often held blocks are stored, in milliseconds. */
export const STORE_EVERY_MS = 100

type Message = Incoming<'rows.completed'>
type Partition = Pick<RawMessage, 'topic' | 'partition'>

/** Messages of a partition whose rows are counted. */
export type Counted = {
  /** Of the consumer group, see `createCounted`. */
  readonly generation: symbol
  readonly messages: readonly Message[]
  readonly tallied: readonly Tallied[]
  /** They end jobs whose blocks Redis keeps until they are stored. */
  readonly mayWait: boolean
}

/** They are stored; what is left to do for the jobs that ended with them. */
export type Stored = Counted & { readonly finishings: readonly Finishing[] }

type BatchLimits = {
  /** Maximum size of the messages of a partition that are held. */
  readonly maxBytes: number
  readonly maxMessages: number
}

/**
 * Messages that are not counted yet. Those of a job wait until they may end it: the verdicts of a
 * small job follow its inputs within milliseconds, and one count and one insert of both take half
 * the time. `late` returns those that were there at its last call already.
 */
export function createUncounted (
  { maxBytes, maxMessages }: BatchLimits, { mayEndJob }: Pick<RemainingRows, 'mayEndJob'>
) {
  const held = createHeldMessages<Message>()
  const seen = new WeakSet<RawMessage>()
  const isFull = (messages: readonly Message[]) => messages.length >= maxMessages ||
    messages.reduce((sum, { raw }) => sum + (raw.value?.length ?? 0), 0) >= maxBytes
  return {
    /** Holds messages of a partition. Returns those that should be counted now. */
    add: (messages: readonly Message[]): readonly Message[] => {
      const [first] = messages
      if (first === undefined) return []
      for (const message of messages) held.add(message)
      const all = held.of(first.raw)
      if (isFull(all)) return all
      return messagesByJob(all).filter(ofJob => mayEndJob(ofJob.map(({ raw }) => raw))).flat()
    },
    late: (partition: Partition): readonly Message[] => {
      const all = held.of(partition)
      const late = all.filter(({ raw }) => seen.has(raw))
      for (const { raw } of all) seen.add(raw)
      return late
    },
    remove: held.remove,
    clear: held.clear,
  }
}

/** Groups messages by job, in their order. */
export function messagesByJob (messages: readonly Message[]): readonly (readonly Message[])[] {
  return [...Map.groupBy(messages, ({ value }) => `${value.tenant} ${value.job}`).values()]
}

/** Counted messages, until they are stored and taken. */
export function createCounted (clock: Clock) {
  let generation = Symbol('generation')
  let batches: readonly (Counted | Stored)[] = []
  let storedAtMs = -Infinity
  const isStored = (batch: Counted | Stored): batch is Stored => 'finishings' in batch
  const isIn = ({ topic, partition }: Partition) => ({ messages: [first] }: Counted) =>
    first?.raw.topic === topic && first.raw.partition === partition
  return {
    generation: () => generation,
    /** Drops a batch of an earlier generation: its messages are delivered again. */
    add: (batch: Counted): void => {
      if (batch.generation === generation) batches = [...batches, batch]
    },
    unstored: (): readonly Counted[] => batches.filter(batch => !isStored(batch)),
    stored: (stored: readonly Stored[]): void => {
      const byMessages = new Map(stored.map(batch => [batch.messages, batch]))
      batches = batches.map(batch => byMessages.get(batch.messages) ?? batch)
    },
    isEmpty: (partition: Partition): boolean => !batches.some(isIn(partition)),
    /** Whether an insert lacks some of a partition, as one that began before has: wait for more. */
    hasUnstored: (partition: Partition): boolean =>
      batches.some(batch => isIn(partition)(batch) && !isStored(batch)),
    /** Takes the stored messages of a partition. */
    take: (partition: Partition): readonly Stored[] => {
      const taken = batches.filter(isStored).filter(isIn(partition))
      batches = batches.filter(batch => !taken.some(one => one === batch))
      return taken
    },
    beginStore: (): void => { storedAtMs = clock.now() },
    /** True if nothing was stored lately: then what comes next is stored at once. */
    isQuiet: (): boolean => batches.length === 0 && clock.now() - storedAtMs >= STORE_EVERY_MS,
    clear: (): void => {
      generation = Symbol('generation')
      batches = []
    },
  }
}

/** Concurrent calls share a run of the action. */
export function shareRunning (action: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> | undefined
  return () => {
    running ??= action().finally(() => { running = undefined })
    return running
  }
}

type RemainingRows = {
  /** Stores how many rows of a job are not finished, by its latest count. */
  readonly update: (job: Pick<Job, 'id' | 'preflight' | 'counts'>) => void
  /** Whether these blocks may end a job, so that they should not wait for further blocks. */
  readonly mayEndJob: (blocks: readonly Pick<RawMessage, 'headers'>[]) => boolean
}

/** All rows count as unfinished for a job that the cache has evicted. */
const MAX_JOBS = 10_000

/** The number of unfinished rows of each job that this process has counted rows of. */
export function createRemainingRows (): RemainingRows {
  // `max` would allocate memory for all entries up front; `maxSize` does not.
  const remaining = new LRUCache<string, number>({ maxSize: MAX_JOBS, sizeCalculation: () => 1 })
  return {
    update: ({ id, preflight, counts }) => {
      remaining.set(id, preflight.totalRows - counts.finishedRows)
    },
    mayEndJob: (blocks) => {
      const arrived = new Map<string, number>()
      for (const { headers } of blocks) {
        const { job = '', totalRows } = headers
        const rows = (arrived.get(job) ?? 0) + rowCountOf(headers)
        arrived.set(job, rows)
        if (rows >= (remaining.get(job) ?? Number(totalRows))) return true
      }
      return false
    },
  }
}
