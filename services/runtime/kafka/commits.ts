import type { Offsets } from 'kafkajs'
import { backoffMs, sleep } from '../platform/retry.ts'
import { kafkaTypeOf } from './errors.ts'

type Send = (offsets: Offsets) => Promise<void>

export type CommitsOptions = {
  /** Aborted when the generation ends; also by a commit that shows that it has. */
  readonly generation: AbortController
  /** Called for each failed request; the next one has its offsets too. */
  readonly onFailed?: ((error: unknown) => void) | undefined
  readonly intervalMs?: number
}

export type Commits = {
  /** Commits the next offset to read of a partition, with the next request. */
  readonly add: (
    place: { readonly topic: string, readonly partition: number }, nextOffset: bigint, send: Send
  ) => void
  /** Resolves after the last request of an ended generation. */
  readonly ended: () => Promise<void>
}

/** After a crash at most the messages of this time are delivered again, besides those in work. */
const INTERVAL_MS = 100

/**
 * Errors of a commit which mean that the generation has ended. NOT_COORDINATOR does not: the
 * heartbeats find out whether the coordinator has moved or only restarted.
 */
const GENERATION_ENDED = ['REBALANCE_IN_PROGRESS', 'ILLEGAL_GENERATION', 'UNKNOWN_MEMBER_ID']

/**
 * Commits the offsets of a generation: those of all partitions in one request, and one request per
 * interval, because a request for each batch would cost more than the batch of a small job. A
 * failed request is repeated with the newest offsets. What is left at the end of the generation is
 * sent at once: the coordinator accepts it until the member joins again.
 */
export function createCommits (
  { generation, onFailed, intervalMs = INTERVAL_MS }: CommitsOptions
): Commits {
  const { signal } = generation
  const pending = new Map<string, { topic: string, partition: number, offset: bigint }>()
  let sendLatest: Send = async () => {}
  let running: Promise<void> | undefined
  const request = async (): Promise<void> => {
    const taken = [...pending]
    pending.clear()
    try {
      await sendLatest({ topics: topicsOf(taken.map(([, one]) => one)) })
    } catch (error) {
      if (GENERATION_ENDED.includes(kafkaTypeOf(error))) generation.abort(error)
      if (signal.aborted) return
      for (const [key, one] of taken) if (!pending.has(key)) pending.set(key, one)
      throw error
    }
  }
  const run = async () => {
    for (let failures = 0; pending.size > 0;) {
      const waitMs = failures === 0 ? intervalMs : backoffMs(failures, { maxMs: 1_000 })
      await sleep(waitMs, signal).catch(() => {})
      try {
        await request()
        failures = 0
      } catch (error) {
        failures++
        onFailed?.(error)
      }
    }
    running = undefined
  }
  return {
    add: ({ topic, partition }, offset, send) => {
      if (signal.aborted) return
      sendLatest = send
      pending.set(`${topic}|${partition}`, { topic, partition, offset })
      running ??= run()
    },
    ended: async () => { await running },
  }
}

function topicsOf (
  all: readonly { readonly topic: string, readonly partition: number, readonly offset: bigint }[]
): Offsets['topics'] {
  return [...Map.groupBy(all, ({ topic }) => topic)].map(([topic, partitions]) => ({
    topic,
    partitions: partitions.map(({ partition, offset }) => ({ partition, offset: `${offset}` })),
  }))
}
