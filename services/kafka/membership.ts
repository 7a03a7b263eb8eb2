import type { EachBatchPayload } from 'kafkajs'
import type { ConsumeOptions } from './bus.ts'
import type { MessageMac } from './message-mac.ts'
import { createPartitionReader, type PartitionReader } from './partition-reader.ts'

export type MembershipOptions = {
  readonly consume: ConsumeOptions
  readonly mac?: MessageMac | undefined
  /** Bytes of one partition fetched ahead of its handler; beyond, the partition is paused. */
  readonly aheadBytes: number
  /** What no redelivery heals: the handler rejected although the partition was ours. */
  readonly onFatal: (error: unknown) => void
}

/** One generation of a group, from one join to the next: its partitions' readers end with it. */
export type Membership = {
  readonly signal: AbortSignal
  readonly abort: (why: string) => void
  /** True once the former generation's handlers have returned and `onAssigned` was called. */
  readonly started: () => boolean
  readonly take: (payload: EachBatchPayload) => void
  /** Resolves when no handler of this generation runs. */
  readonly ended: () => Promise<void>
}

/**
 * Begins a generation once the former one has ended: its handlers have returned, so what
 * `onAssigned` drops can't come back, and nothing is delivered before `onAssigned`.
 */
export function beginMembership (
  { consume, mac, aheadBytes, onFatal }: MembershipOptions, formerEnded: Promise<void>
): Membership {
  const controller = new AbortController()
  const readers = new Map<string, PartitionReader>()
  let assigned = false
  const fail = (error: unknown) => {
    if (controller.signal.aborted) return
    controller.abort(error)
    onFatal(error)
  }
  const start = (async () => {
    await formerEnded
    if (controller.signal.aborted) return
    consume.onAssigned()
    assigned = true
  })().catch(fail)
  const readerOf = (payload: EachBatchPayload) => {
    const { topic, partition } = payload.batch
    const key = `${topic}|${partition}`
    const reader = readers.get(key) ?? createPartitionReader({
      topic,
      partition,
      start,
      aheadBytes,
      fail,
      membership: controller,
      gather: consume.gather,
      mac,
      onDelivery: consume.onDelivery,
    })
    readers.set(key, reader)
    return reader
  }
  return {
    signal: controller.signal,
    abort: (why) => controller.abort(new Error(why)),
    started: () => assigned,
    take: (payload) => { if (!controller.signal.aborted) readerOf(payload).take(payload) },
    ended: async () => {
      await start
      await Promise.all([...readers.values()].map((reader) => reader.ended()))
      for (const reader of readers.values()) reader.release()
    },
  }
}
