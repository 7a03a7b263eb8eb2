import { LRUCache } from 'lru-cache'
import type { ChunkMessage } from './read.ts'

/** The messages of a job. */
export type JobMessages = {
  /** The first message of each chunk, in the order of the chunks. */
  readonly messages: readonly ChunkMessage[]
  /** All messages, repeated ones included. */
  readonly members: readonly ChunkMessage[]
}

/** The chunks of an undecided job, complete or not. */
export type PendingJob = {
  /** Any of them: all are in one partition, because the job is the message key. */
  readonly message: ChunkMessage
  readonly unit: JobMessages
  /** All other chunks of the job are dead letters, so no further chunk can arrive. */
  readonly hasAllChunks: boolean
  /** The number of polls, including this one, since anything arrived in its partition. */
  readonly idlePolls: number
}

type Waiting = {
  /** Any of its chunks. */
  message: ChunkMessage
  /** Polls are counted instead of time, which also passes while an outage stalls the partition. */
  idlePolls: number
  /** How many it has. */
  readonly chunks: number
  readonly byChunk: Map<number, ChunkMessage>
  readonly members: Set<ChunkMessage>
}

export type TopicPartition = { readonly topic: string, readonly partition: number }

/**
 * Maximum number of jobs with dead chunks; the oldest are forgotten first. Most of them hold
 * nothing.
 */
const MAX_DEAD = 10_000

/** Keeps the chunks of jobs until all have arrived, and the chunks that never will. */
export class PendingJobs {
  readonly #jobs = new Map<string, Waiting>()
  // `maxSize` instead of `max`, which would allocate memory for all entries in advance.
  readonly #dead = new LRUCache<string, ReadonlySet<number>>({
    maxSize: MAX_DEAD, sizeCalculation: () => 1,
  })

  /** Partitions with messages since the last poll. */
  readonly #active = new Set<string>()

  /**
   * Adds a chunk; returns the messages of its job if no chunk is missing. The job stays until
   * `drop`, and is returned again for a repeated chunk: so a failed decision can be retried.
   */
  add (message: ChunkMessage): JobMessages | undefined {
    const { chunk, chunks } = message.value
    const name = nameOf(message)
    const job: Waiting = this.#jobs.get(name) ??
      { message, idlePolls: 0, chunks, byChunk: new Map(), members: new Set() }
    if (!Number.isInteger(chunk) || chunk < 0 || chunk >= job.chunks) {
      throw new RangeError(`a chunk of job ${message.value.job} has the number ${chunk}, and the ` +
        `job has ${job.chunks}, from 0`)
    }
    this.#jobs.set(name, job)
    this.#active.add(partitionOf(message.raw))
    Object.assign(job, { message, idlePolls: 0 })
    job.members.add(message)
    if (!job.byChunk.has(chunk)) job.byChunk.set(chunk, message)
    return job.byChunk.size === job.chunks ? messagesOf(job) : undefined
  }

  /** Marks a chunk as a dead letter; false if a message of it is held. */
  markDead (
    { tenant, job }: { readonly tenant: string, readonly job: string }, chunk: number
  ): boolean {
    const name = `${tenant}:${job}`
    this.#dead.set(name, new Set([...this.#dead.get(name) ?? [], chunk]))
    return this.#jobs.get(name)?.byChunk.has(chunk) !== true
  }

  /** Forgets the job that waits with this message; false if none does, or only with a copy. */
  drop (message: ChunkMessage): boolean {
    const name = nameOf(message)
    if (this.#jobs.get(name)?.members.has(message) !== true) return false
    this.#jobs.delete(name)
    this.#dead.delete(name)
    return true
  }

  /** Jobs that may need no further chunk: past `acceptBy`, or with dead chunks. */
  expired (place: TopicPartition, nowMs: number): readonly PendingJob[] {
    const idle = this.#active.has(partitionOf(place)) ? 0 : 1
    return this.#of(place)
      .filter(([name, { message }]) => nowMs > message.value.acceptBy || this.#dead.has(name))
      .map(([name, job]) => {
        const dead = this.#dead.get(name)
        const hasAllChunks = dead !== undefined &&
          new Set([...dead, ...job.byChunk.keys()]).size >= job.chunks
        const idlePolls = job.idlePolls + idle
        return { message: job.message, unit: messagesOf(job), hasAllChunks, idlePolls }
      })
  }

  /** Counts a poll of the partition. */
  polled (place: TopicPartition): void {
    const isActive = this.#active.delete(partitionOf(place))
    if (isActive) return
    for (const [, job] of this.#of(place)) job.idlePolls += 1
  }

  /** Forgets everything, as other processes may have the partitions now. */
  forget (): void {
    this.#jobs.clear()
    this.#active.clear()
    this.#dead.clear()
  }

  #of (place: TopicPartition): readonly (readonly [name: string, job: Waiting])[] {
    const partition = partitionOf(place)
    return [...this.#jobs].filter(([, { message }]) => partitionOf(message.raw) === partition)
  }
}

function messagesOf ({ byChunk, members }: Waiting): JobMessages {
  const sorted = [...byChunk].sort(([a], [b]) => a - b).map(([, message]) => message)
  return { messages: sorted, members: [...members] }
}

const partitionOf = ({ topic, partition }: TopicPartition) => `${topic}:${partition}`

/** The name of the job of a chunk. */
export function nameOf ({ value }: Pick<ChunkMessage, 'value'>): string {
  return `${value.tenant}:${value.job}`
}
