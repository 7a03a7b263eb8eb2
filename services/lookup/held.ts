import { LRUCache } from 'lru-cache'
import { createGather, type Unit } from '../lib/gather.ts'
import type { ChunkMessage } from './load.ts'

/** Chunks of a job that are not decided yet, complete or not. */
export type HeldJob = {
  /** Any of them: all are of one partition, as the job is the key. */
  readonly message: ChunkMessage
  /** The first message of each chunk that came, and all of them. */
  readonly unit: Unit<ChunkMessage>
  /** Every other chunk of the job is dead: none is to come any more. */
  readonly isAccountedFor: boolean
  /** When the last of them came. */
  readonly sinceMs: number
}

/** Dead chunks of more jobs are forgotten, the oldest first; most are of jobs that hold nothing. */
const MOST_DEAD = 10_000

export type HeldJobs = ReturnType<typeof createHeldJobs>

type Partition = { readonly topic: string, readonly partition: number }

/** Remembers the chunks of jobs until all of a job are there, and which of them never will be. */
export function createHeldJobs () {
  const gather = createGather<ChunkMessage>({
    unitOf,
    indexOf: ({ value }) => value.chunk,
    sizeOf: ({ value }) => value.chunks,
  })
  const waiting = new Map<string, { readonly message: ChunkMessage, readonly sinceMs: number }>()
  const dead = new LRUCache<string, ReadonlySet<number>>({ max: MOST_DEAD })
  const heldOf = (name: string): HeldJob | undefined => {
    const known = waiting.get(name)
    if (known === undefined) return undefined
    const members = gather.membersOf(known.message)
    const byChunk = new Map([...members].reverse().map(one => [one.value.chunk, one]))
    const parts = [...byChunk.values()].sort((a, b) => a.value.chunk - b.value.chunk)
    const gone = dead.get(name) ?? []
    const isAccountedFor = dead.has(name) &&
      new Set([...gone, ...byChunk.keys()]).size >= known.message.value.chunks
    return { ...known, unit: { parts, members }, isAccountedFor }
  }
  return {
    /** The chunks of the job, once this was the last of them. */
    add: (message: ChunkMessage, nowMs: number): Unit<ChunkMessage> | undefined => {
      const unit = gather.add(message)
      waiting.set(unitOf(message), { message, sinceMs: nowMs })
      return unit
    },
    /** Nobody can read this chunk of the job. */
    lose: ({ tenant, job }: { readonly tenant: string, readonly job: string }, chunk: number) => {
      const name = `${tenant}:${job}`
      dead.set(name, new Set([...dead.get(name) ?? [], chunk]))
    },
    drop: (message: ChunkMessage): void => {
      gather.done(message)
      waiting.delete(unitOf(message))
      dead.delete(unitOf(message))
    },
    /** Jobs that may wait for nothing more: late ones, and those with dead chunks. */
    suspects: ({ topic, partition }: Partition, nowMs: number): readonly HeldJob[] =>
      [...waiting]
        .filter(([name, { message: { raw, value } }]) => raw.topic === topic &&
          raw.partition === partition && (nowMs > value.acceptBy || dead.has(name)))
        .flatMap(([name]) => heldOf(name) ?? []),
    forget: (): void => {
      gather.forget()
      waiting.clear()
      dead.clear()
    },
  }
}

/** The name of a chunk's job. */
export function unitOf ({ value }: Pick<ChunkMessage, 'value'>): string {
  return `${value.tenant}:${value.job}`
}
