import { LRUCache } from 'lru-cache'
import { createAggregate, type Unit } from '../engine/aggregate.ts'
import type { ChunkMessage } from './load.ts'

/** Chunks of a job that are not decided yet, complete or not. */
export type PendingJob = {
  /** Any of them: all are of one partition, as the job is the key. */
  readonly message: ChunkMessage
  /** The first message of each chunk that came, and all of them. */
  readonly unit: Unit<ChunkMessage>
  /** Every other chunk of the job is dead: none is to come any more. */
  readonly isAccountedFor: boolean
  /** How often, this time included, its partition was looked at and nothing had come at all. */
  readonly quietLooks: number
}

type Waiting = Pick<PendingJob, 'message' | 'quietLooks'>

/** Dead chunks of more jobs are forgotten, the oldest first; most are of jobs that hold nothing. */
const MAX_DEAD = 10_000

export type PendingJobs = ReturnType<typeof createPendingJobs>

type Partition = { readonly topic: string, readonly partition: number }

/** Remembers the chunks of jobs until all of a job are there, and which of them never will be. */
export function createPendingJobs () {
  const gather = createAggregate<ChunkMessage>({
    unitOf,
    indexOf: ({ value }) => value.chunk,
    sizeOf: ({ value }) => value.chunks,
  })
  const waiting = createWaiting()
  // Told by size, it takes no room before there is need of it.
  const dead = new LRUCache<string, ReadonlySet<number>>({
    maxSize: MAX_DEAD, sizeCalculation: () => 1,
  })
  const heldOf = (known: Waiting): PendingJob => {
    const members = gather.membersOf(known.message)
    return heldJob(known, { members, gone: dead.get(unitOf(known.message)) })
  }
  return {
    /** The chunks of the job, once this was the last of them. */
    add: (message: ChunkMessage): Unit<ChunkMessage> | undefined => {
      const unit = gather.add(message)
      waiting.add(message)
      return unit
    },
    /** No more comes of this chunk of the job; false where a message of it is held. */
    lose: (
      { tenant, job }: { readonly tenant: string, readonly job: string }, chunk: number
    ): boolean => {
      const name = `${tenant}:${job}`
      dead.set(name, new Set([...dead.get(name) ?? [], chunk]))
      const held = waiting.find(name)
      return held === undefined ||
        gather.membersOf(held).every(({ value }) => value.chunk !== chunk)
    },
    drop: (message: ChunkMessage): void => {
      gather.remove(message)
      waiting.drop(message)
      dead.delete(unitOf(message))
    },
    /** Jobs that may wait for nothing more: late ones, and those with dead chunks. */
    suspects: (place: Partition, nowMs: number): readonly PendingJob[] =>
      waiting.of(place)
        .filter(({ message }) => nowMs > message.value.acceptBy || dead.has(unitOf(message)))
        .map(heldOf),
    /** A look at the partition went through. */
    looked: waiting.looked,
    forget: (): void => {
      gather.clear()
      waiting.clear()
      dead.clear()
    },
  }
}

type Came = {
  readonly members: readonly ChunkMessage[]
  /** Numbers of the dead chunks, if there are any. */
  readonly gone: ReadonlySet<number> | undefined
}

function heldJob (known: Waiting, { members, gone }: Came): PendingJob {
  const byChunk = new Map([...members].reverse().map(one => [one.value.chunk, one]))
  const parts = [...byChunk.values()].sort((a, b) => a.value.chunk - b.value.chunk)
  const isAccountedFor = gone !== undefined &&
    new Set([...gone, ...byChunk.keys()]).size >= known.message.value.chunks
  return { ...known, unit: { messages: parts, members }, isAccountedFor }
}

/**
 * Any chunk of each job that waits, and the looks at which nothing had come. Looks are counted and
 * not time: that also passes while the partition waits for infrastructure, with the missing chunks
 * right behind.
 */
function createWaiting () {
  const byName = new Map<string, Waiting>()
  /** Partitions something came from since they were last looked at. */
  const lively = new Set<string>()
  const of = (place: Partition): readonly Waiting[] => {
    const name = partitionOf(place)
    const looks = lively.has(name) ? 0 : 1
    return [...byName.values()]
      .filter(({ message }) => partitionOf(message.raw) === name)
      .map(({ message, quietLooks }) => ({ message, quietLooks: quietLooks + looks }))
  }
  return {
    of,
    find: (name: string): ChunkMessage | undefined => byName.get(name)?.message,
    add: (message: ChunkMessage): void => {
      lively.add(partitionOf(message.raw))
      byName.set(unitOf(message), { message, quietLooks: 0 })
    },
    drop: (message: ChunkMessage): void => { byName.delete(unitOf(message)) },
    looked: (place: Partition): void => {
      for (const waiting of of(place)) byName.set(unitOf(waiting.message), waiting)
      lively.delete(partitionOf(place))
    },
    clear: (): void => {
      byName.clear()
      lively.clear()
    },
  }
}

const partitionOf = ({ topic, partition }: Partition) => `${topic}:${partition}`

/** The name of a chunk's job. */
export function unitOf ({ value }: Pick<ChunkMessage, 'value'>): string {
  return `${value.tenant}:${value.job}`
}
