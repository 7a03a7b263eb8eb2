import { randomUUID } from 'node:crypto'
import {
  AssignerProtocol, logLevel, Partitioners, type Batch, type PartitionAssigner,
} from 'kafkajs'
import type { RawMessage } from './bus.ts'
import { InfrastructureError, markFailed, storeText } from '../platform/errors.ts'
import type { MessageMac } from '../crypto/mac.ts'
import { retry } from '../platform/retry.ts'
import { createKafka, withClientAdmin, type KafkaAdmin, type KafkaClient } from './client.ts'
import type { KafkaConnection } from './connection.ts'
import { rawMessage } from './consumer.ts'

/** The offset of the next message to read, by partition. */
export type PartitionOffsets = ReadonlyMap<number, bigint>

/** The range of messages to read; by default all. */
export type ReadLimits = {
  /** Skips messages written more than five minutes earlier, the tolerated clock skew. */
  readonly sinceMs?: number | undefined
  /** Skips messages before these positions, unless they were written after `sinceMs`. */
  readonly from?: PartitionOffsets | undefined
  /** Skips messages from this time on, by the timestamp index of the brokers. */
  readonly untilMs?: number | undefined
  /** Skips messages with other keys, and partitions that have none of these. */
  readonly keys?: ReadonlySet<string> | undefined
}

type TopicReadOptions = ReadLimits & {
  readonly topic: string
  /** A temporary group, which is deleted afterwards. */
  readonly groupId: string
  readonly signal: AbortSignal
  /** The next batch of a partition follows when it has resolved. */
  readonly onBatch: (batch: PartitionBatch) => Promise<void> | void
}

/** Up to MAX_BATCH_MESSAGES messages of one partition, in order. */
type PartitionBatch = Pick<Batch, 'topic' | 'partition' | 'messages'>

export type TopicReader = ReturnType<typeof createTopicReader>

/** A partition is read at tens of MB per second, so this time without a message is an outage. */
const IDLE_TIMEOUT_MS = 20_000

/** Reads topics for commands and recovery. It leaves neither groups nor offsets behind. */
export function createTopicReader (
  { clientId, mac, ...connection }: KafkaConnection & {
    readonly clientId: string
    /** Without it, messages are not verified. */
    readonly mac?: MessageMac | undefined
  },
  kafka: KafkaClient = createKafka(connection, {
    clientId, connectionTimeout: 3_000, logLevel: logLevel.NOTHING,
  })
) {
  return {
    /**
     * Reads a topic to its current end and skips forged messages. Each partition is in order; the
     * next messages follow when `onMessages` has resolved. An error of `onMessages` ends the read
     * and is thrown. Returns the end positions, where the next read can start.
     * @throws InfrastructureError when the topic cannot be read to its end.
     */
    read: async (
      topic: string, onMessages: (messages: readonly RawMessage[]) => Promise<void> | void,
      { signal = new AbortController().signal, ...limits }: ReadLimits & {
        readonly signal?: AbortSignal,
      } = {}
    ): Promise<PartitionOffsets> => {
      let fault: { readonly error: unknown } | undefined
      const failed = new AbortController()
      const onBatch = async (batch: PartitionBatch) => {
        if (fault !== undefined) return
        try {
          const { keys } = limits
          await onMessages(batch.messages
            .filter(({ key }) => keys === undefined || keys.has(String(key)))
            .map(message => rawMessage(batch, message, mac))
            .filter(({ forged }) => forged !== true))
        } catch (error) {
          // If it were thrown here, kafkajs would redeliver the batch for many seconds.
          fault = { error }
          failed.abort()
        }
      }
      const until = AbortSignal.any([signal, failed.signal])
      const groupId = `${clientId}.${topic}.${randomUUID()}`
      try {
        const ends = await readToEnd(kafka, { ...limits, topic, groupId, signal: until, onBatch })
        if (fault === undefined) return ends
      } catch (cause) {
        if (fault === undefined) {
          markFailed(cause, storeText('KAFKA_BROKERS', `kafka://${connection.brokers.join()}`))
          throw new InfrastructureError(`topic ${topic} could not be read to its end`, { cause })
        }
      }
      throw fault.error
    },
  }
}

/** Reads partitions of a topic to their current ends and returns these ends. */
async function readToEnd (
  kafka: KafkaClient, reading: TopicReadOptions
): Promise<PartitionOffsets> {
  const { groupId, signal } = reading
  // Each try has a new client: only new metadata has a leader that has just moved.
  const readBounds = () => withClientAdmin(kafka, admin => listBounds(admin, reading))
  const bounds = await retry(BOUNDS_TRIES, readBounds, {
    signal, maxMs: 1_000, when: error => (error as { retriable?: unknown }).retriable === true,
  })
  const ends = new Map(bounds.map(({ partition, end }) => [partition, end]))
  const open = bounds.filter(({ start, end }) => start < end)
  if (open.length === 0) return ends
  try {
    if (reading.sinceMs !== undefined || reading.from !== undefined) {
      const partitions = open.map(({ partition, start }) => ({ partition, offset: String(start) }))
      await withClientAdmin(kafka, admin =>
        admin.setOffsets({ groupId, topic: reading.topic, partitions }))
    }
    await consumeUntil(kafka, reading, open)
    return ends
  } finally {
    // The brokers would delete the empty group, but not at once.
    await withClientAdmin(kafka, admin => admin.deleteGroups([groupId])).catch(() => {})
  }
}

const BOUNDS_TRIES = 20
/** Per partition and fetch: messages take many times their compressed bytes. */
const MAX_FETCH_BYTES = 64 * 1_024
/** Messages of a batch: what is made of all messages of a fetch would survive collections. */
const MAX_BATCH_MESSAGES = 250

const CLOCK_SKEW_MS = 300_000

/** The first offset to read in a partition, and its end. */
type Bounds = { readonly partition: number, readonly start: bigint, readonly end: bigint }

async function listBounds (
  admin: KafkaAdmin, { topic, keys, sinceMs, from, untilMs }: TopicReadOptions
): Promise<readonly Bounds[]> {
  const all = await admin.fetchTopicOffsets(topic)
  const wanted = keys && await findPartitions(admin, topic, keys)
  /** By partition, the offset of the first message with this timestamp or a later one, if any. */
  const offsetsFrom = async (ms: number | undefined) => {
    if (ms === undefined) return undefined
    const offsets = await admin.fetchTopicOffsetsByTimestamp(topic, ms)
    return new Map(offsets.map(({ partition, offset }) => [partition, BigInt(offset)] as const)
      .filter(([, offset]) => offset >= 0n))
  }
  const starts = await offsetsFrom(sinceMs && sinceMs - CLOCK_SKEW_MS)
  const ends = await offsetsFrom(untilMs)
  const read = all.filter(({ partition }) => wanted === undefined || wanted.has(partition))
  return read.map(({ partition, low, high }) => {
    const requested = [starts?.get(partition), from && (from.get(partition) ?? 0n)]
      .filter(offset => offset !== undefined)
    const end = ends?.get(partition) ?? BigInt(high)
    const start = requested.reduce(
      (lowest, offset) => offset < lowest ? offset : lowest, requested[0] ?? 0n)
    return { partition, start: start < BigInt(low) ? BigInt(low) : start, end }
  })
}

/** The partitions of these keys by the default partitioner of kafkajs. */
async function findPartitions (
  admin: KafkaAdmin, topic: string, keys: ReadonlySet<string>
): Promise<ReadonlySet<number>> {
  const { topics: [metadata] } = await admin.fetchTopicMetadata({ topics: [topic] })
  const partitionMetadata = metadata?.partitions ?? []
  const choosePartition = Partitioners.DefaultPartitioner()
  return new Set([...keys].map(key =>
    choosePartition({ topic, partitionMetadata, message: { key, value: null } })))
}

/** Reads with a consumer of a temporary group: kafkajs has no other way to read a topic. */
async function consumeUntil (
  kafka: KafkaClient, { topic, groupId, signal, onBatch }: TopicReadOptions,
  bounds: readonly Bounds[]
): Promise<void> {
  signal.throwIfAborted()
  const open = new Map(bounds.map(({ partition, end }) => [partition, end]))
  const over = Promise.withResolvers<void>()
  // It may reject before it is awaited.
  over.promise.catch(() => {})
  let hasBatch = false
  const consumer = kafka.consumer({
    groupId,
    maxWaitTimeInMs: 100,
    maxBytesPerPartition: MAX_FETCH_BYTES,
    allowAutoTopicCreation: false,
    partitionAssigners: [assignOnly([...open.keys()])],
    // A coordinator that is still loading rejects members. After the first batch, a restart would
    // deliver the same messages again.
    retry: { retries: 5, restartOnFailure: async () => !hasBatch },
  })
  consumer.on(consumer.events.CRASH, ({ payload: { error, restart } }) => {
    if (!restart) over.reject(error)
  })
  const idle = setTimeout(() => over.reject(new InfrastructureError(
    `the read of ${topic} timed out: no message for ${IDLE_TIMEOUT_MS} ms`)), IDLE_TIMEOUT_MS)
  const onAbort = () => over.reject(signal.reason)
  signal.addEventListener('abort', onAbort)
  try {
    await consumer.connect()
    await consumer.subscribe({ topics: [topic], fromBeginning: true })
    const eachBatch = async ({ batch }: { readonly batch: Batch }) => {
      hasBatch = true
      idle.refresh()
      const { partition, messages } = batch
      const end = open.get(partition) ?? 0n
      const wanted = messages.filter(({ offset }) => BigInt(offset) < end)
      for (let at = 0; at < wanted.length; at += MAX_BATCH_MESSAGES) {
        await onBatch({ topic, partition, messages: wanted.slice(at, at + MAX_BATCH_MESSAGES) })
      }
      if (BigInt(batch.lastOffset()) + 1n >= end) open.delete(partition)
      if (open.size === 0) over.resolve()
    }
    await consumer.run({ autoCommit: false, eachBatch })
    await over.promise
  } finally {
    clearTimeout(idle)
    signal.removeEventListener('abort', onAbort)
    await consumer.disconnect()
  }
}

/** Assigns only these partitions to the one member of the group. */
function assignOnly (partitions: number[]): PartitionAssigner {
  const { MemberAssignment, MemberMetadata } = AssignerProtocol
  const name = 'whole-topic'
  const version = 0
  const userData = Buffer.alloc(0)
  return () => ({
    name,
    version,
    assign: async ({ members, topics: [topic = ''] }) => members.map(({ memberId }, index) => ({
      memberId,
      memberAssignment: MemberAssignment.encode({
        version, userData, assignment: { [topic]: index === 0 ? partitions : [] },
      }),
    })),
    protocol: ({ topics }) => ({
      name, metadata: MemberMetadata.encode({ version, userData, topics }),
    }),
  })
}
