import type { EachBatchPayload } from 'kafkajs'
import type { ConsumeOptions } from './bus.ts'
import type { MessageMac } from './message-mac.ts'
import { createPartitionReader, type PartitionReader } from './partition-reader.ts'

export type GenerationOptions = {
  readonly consume: ConsumeOptions
  readonly mac?: MessageMac | undefined
  /** Bytes fetched ahead of the handler of a partition; above, the partition is paused. */
  readonly maxBufferedBytes: number
  /** Called when a handler rejects while the partition is assigned: a redelivery cannot help. */
  readonly onFatal: (error: unknown) => void
}

/** One generation of a consumer group, from one join to the next, with its partition readers. */
export type Generation = {
  readonly signal: AbortSignal
  readonly abort: (why: string) => void
  /** True once the previous handlers have returned and `onAssigned` was called. */
  readonly isStarted: () => boolean
  readonly enqueue: (payload: EachBatchPayload) => void
  /** Resolves when no handler of this generation is running. */
  readonly ended: () => Promise<void>
}

/**
 * Starts a generation after the handlers of the previous one have returned: so they cannot hold a
 * message again after `onAssigned`. Nothing is delivered before `onAssigned`.
 */
export function startGeneration (
  { consume, mac, maxBufferedBytes, onFatal }: GenerationOptions, formerEnded: Promise<void>
): Generation {
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
      maxBufferedBytes,
      fail,
      generation: controller,
      fetchBatching: consume.fetchBatching,
      mac,
      onDelivery: consume.onDelivery,
    })
    readers.set(key, reader)
    return reader
  }
  return {
    signal: controller.signal,
    abort: (why) => controller.abort(new Error(why)),
    isStarted: () => assigned,
    enqueue: (payload) => { if (!controller.signal.aborted) readerOf(payload).enqueue(payload) },
    ended: async () => {
      await start
      await Promise.all([...readers.values()].map((reader) => reader.ended()))
      for (const reader of readers.values()) reader.resume()
    },
  }
}
