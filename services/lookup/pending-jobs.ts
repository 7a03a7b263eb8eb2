import { LRUCache } from 'lru-cache'
import { createAggregate, type Unit } from '../engine/aggregate.ts'
import type { ChunkMessage } from './chunk-loader.ts'

/** The chunks of an undecided job, complete or not. */
export type PendingJob = {
  /** Any of them: all are in one partition, because the job is the message key. */
  readonly message: ChunkMessage
  /** The first message of each chunk, and all messages. */
  readonly unit: Unit<ChunkMessage>
  /** All other chunks of the job are dead letters, so no further chunk can arrive. */
  readonly hasAllChunks: boolean
  /** The number of polls, including this one, since anything arrived in its partition. */
  readonly idlePolls: number
}

type Waiting = Pick<PendingJob, 'message' | 'idlePolls'>

/**
 * Maximum number of jobs with dead chunks; the oldest are forgotten first. Most of them hold
 * nothing.
 */
const MAX_DEAD = 10_000

export type PendingJobs = ReturnType<typeof createPendingJobs>

type Partition = { readonly topic: string, readonly partition: number }

/** Keeps the chunks of jobs until all have arrived, and the chunks that never will. */
export function createPendingJobs () {
  const aggregate = createAggregate<ChunkMessage>({
    unitOf,
    indexOf: ({ value }) => value.chunk,
    sizeOf: ({ value }) => value.chunks,
  })
  const waiting = createWaiting()
  // `maxSize` instead of `max`, which would allocate memory for all entries in advance.
  const dead = new LRUCache<string, ReadonlySet<number>>({
    maxSize: MAX_DEAD, sizeCalculation: () => 1,
  })
  const heldOf = (known: Waiting): PendingJob => {
    const members = aggregate.membersOf(known.message)
    return pendingJobOf(known, { members, gone: dead.get(unitOf(known.message)) })
  }
  return {
    /** Adds a chunk; returns the chunks of its job if it was the last one. */
    add: (message: ChunkMessage): Unit<ChunkMessage> | undefined => {
      const unit = aggregate.add(message)
      waiting.add(message)
      return unit
    },
    /** Marks a chunk as a dead letter; false if a message of it is held. */
    markDead: (
      { tenant, job }: { readonly tenant: string, readonly job: string }, chunk: number
    ): boolean => {
      const name = `${tenant}:${job}`
      dead.set(name, new Set([...dead.get(name) ?? [], chunk]))
      const pendingJobs = waiting.find(name)
      return pendingJobs === undefined ||
        aggregate.membersOf(pendingJobs).every(({ value }) => value.chunk !== chunk)
    },
    drop: (message: ChunkMessage): void => {
      aggregate.remove(message)
      waiting.drop(message)
      dead.delete(unitOf(message))
    },
    /** Jobs that may need no further chunk: past `acceptBy`, or with dead chunks. */
    expired: (place: Partition, nowMs: number): readonly PendingJob[] =>
      waiting.of(place)
        .filter(({ message }) => nowMs > message.value.acceptBy || dead.has(unitOf(message)))
        .map(heldOf),
    /** Counts a poll of the partition. */
    polled: waiting.polled,
    forget: (): void => {
      aggregate.clear()
      waiting.clear()
      dead.clear()
    },
  }
}

type ReceivedChunks = {
  readonly members: readonly ChunkMessage[]
  /** Numbers of the dead chunks, if any. */
  readonly gone: ReadonlySet<number> | undefined
}

function pendingJobOf (known: Waiting, { members, gone }: ReceivedChunks): PendingJob {
  const byChunk = new Map([...members].reverse().map(one => [one.value.chunk, one]))
  const messages = [...byChunk.values()].sort((a, b) => a.value.chunk - b.value.chunk)
  const hasAllChunks = gone !== undefined &&
    new Set([...gone, ...byChunk.keys()]).size >= known.message.value.chunks
  return { ...known, unit: { messages, members }, hasAllChunks }
}

/**
 * Any chunk of each waiting job, with its idle polls. Polls are counted instead of time, which also
 * passes while the partition is stalled by an outage and the missing chunks are next.
 */
function createWaiting () {
  const byName = new Map<string, Waiting>()
  /** Partitions with messages since the last poll. */
  const active = new Set<string>()
  const of = (place: Partition): readonly Waiting[] => {
    const name = partitionOf(place)
    const idle = active.has(name) ? 0 : 1
    return [...byName.values()]
      .filter(({ message }) => partitionOf(message.raw) === name)
      .map(({ message, idlePolls }) => ({ message, idlePolls: idlePolls + idle }))
  }
  return {
    of,
    find: (name: string): ChunkMessage | undefined => byName.get(name)?.message,
    add: (message: ChunkMessage): void => {
      active.add(partitionOf(message.raw))
      byName.set(unitOf(message), { message, idlePolls: 0 })
    },
    drop: (message: ChunkMessage): void => { byName.delete(unitOf(message)) },
    polled: (place: Partition): void => {
      for (const waiting of of(place)) byName.set(unitOf(waiting.message), waiting)
      active.delete(partitionOf(place))
    },
    clear: (): void => {
      byName.clear()
      active.clear()
    },
  }
}

const partitionOf = ({ topic, partition }: Partition) => `${topic}:${partition}`

/** The name of the job of a chunk. */
export function unitOf ({ value }: Pick<ChunkMessage, 'value'>): string {
  return `${value.tenant}:${value.job}`
}
