import { randomUUID } from 'node:crypto'
import {
  AssignerProtocol, Kafka, logLevel,
  type Admin, type Batch, type Consumer, type PartitionAssigner,
} from 'kafkajs'
import type { RawMessage } from './bus.ts'
import { InfrastructureError } from '../platform/errors.ts'
import type { MessageMac } from './message-mac.ts'
import { sleep, retry } from '../platform/retry.ts'
import { kafkaOptionsOf, type KafkaConnection } from './connection.ts'
import { rawMessage } from './partition-reader.ts'

/** Of each partition the offset of the next message to read. */
export type Positions = ReadonlyMap<number, bigint>

/** Which messages of a topic are read; all that it has when everything is left out. */
export type Limits = {
  /** Messages written more than five minutes before are left out: clocks may differ by so much. */
  readonly sinceMs?: number | undefined
  /** Messages before these positions are left out, unless they were written after `sinceMs`. */
  readonly from?: Positions | undefined
  /** Messages written at this moment and later are left out, as far as the brokers can tell. */
  readonly untilMs?: number | undefined
}

export type Reading = Limits & {
  readonly topic: string
  /** Used by nobody else; it is gone again afterwards. */
  readonly groupId: string
  readonly signal: AbortSignal
  /** The partitions that matter; all when left out. */
  readonly only?: (admin: Admin) => Promise<ReadonlySet<number>>
  /** The next batch of a partition is read when it has resolved. */
  readonly onBatch: (batch: Read) => Promise<void> | void
}

/** Messages of one partition, in order. */
export type Read = Pick<Batch, 'topic' | 'partition' | 'messages'>

export type TopicReader = {
  /**
   * Hands over the messages of a topic but forged ones, in the order of each partition; the next
   * ones come when `onMessages` has resolved, and an error of its own ends the reading. Returns
   * where it ended, from where another reading goes on.
   * @throws InfrastructureError when the topic can't be read to its end.
   */
  readonly read: (
    topic: string, onMessages: (messages: readonly RawMessage[]) => Promise<void> | void,
    limits?: Limits & { readonly signal?: AbortSignal },
  ) => Promise<Positions>
}

/** A partition is read at tens of megabytes a second: so long without any message is an outage. */
const QUIET_MS = 20_000

/** Reads whole topics, for commands that are run by hand: it leaves neither group nor offsets. */
export function createTopicReader (
  { clientId, mac, ...connection }: KafkaConnection & {
    readonly clientId: string
    /** Left out, messages are not judged. */
    readonly mac?: MessageMac | undefined
  }
): TopicReader {
  const kafka = new Kafka({
    ...kafkaOptionsOf(connection), clientId, connectionTimeout: 3_000, logLevel: logLevel.NOTHING,
  })
  return {
    read: async (topic, onMessages, { signal = new AbortController().signal, ...limits } = {}) => {
      let fault: { readonly error: unknown } | undefined
      const failed = new AbortController()
      const onBatch = async (batch: Read) => {
        if (fault !== undefined) return
        try {
          await onMessages(batch.messages.map(message => rawMessage(batch, message, mac))
            .filter(({ forged }) => forged !== true))
        } catch (error) {
          // Were it thrown, the client would hand over the batch again for many seconds.
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
          throw new InfrastructureError(`${topic} could not be read`, { cause })
        }
      }
      throw fault.error
    },
  }
}

/** Reads partitions of a topic to the ends they have now; returns these ends. */
export async function readToEnd (kafka: Kafka, reading: Reading): Promise<Positions> {
  const { groupId, signal } = reading
  // A leader that has just moved is found only with new metadata, so each try is a new client.
  const bounds = await retry(ENDS_TRIES, () => asAdmin(kafka, admin => boundsOf(admin, reading)), {
    signal, maxMs: 1_000, when: error => (error as { retriable?: unknown }).retriable === true,
  })
  const ends = new Map(bounds.map(({ partition, end }) => [partition, end]))
  const open = bounds.filter(({ start, end }) => start < end)
  if (open.length === 0) return ends
  try {
    if (reading.sinceMs !== undefined || reading.from !== undefined) {
      await begin(kafka, reading, open)
    }
    await consumeUntil(kafka, reading, open)
    return ends
  } finally {
    // The broker forgets empty groups by itself, but not at once.
    await asAdmin(kafka, admin => admin.deleteGroups([groupId])).catch(() => {})
  }
}

const ENDS_TRIES = 20
/** Of a partition at once: as objects, messages take several times their bytes. */
const FETCHED_BYTES = 256 * 1_024

async function asAdmin<T> (kafka: Kafka, work: (admin: Admin) => Promise<T>): Promise<T> {
  const admin = kafka.admin()
  await admin.connect()
  try {
    return await work(admin)
  } finally {
    await admin.disconnect()
  }
}

const CLOCKS_DIFFER_MS = 300_000

/** The offsets at which the reading of a partition begins and ends. */
type Bounds = { readonly partition: number, readonly start: bigint, readonly end: bigint }

async function boundsOf (
  admin: Admin, { topic, only, sinceMs, from, untilMs }: Reading
): Promise<readonly Bounds[]> {
  const all = await admin.fetchTopicOffsets(topic)
  const wanted = await only?.(admin) ?? new Set(all.map(({ partition }) => partition))
  const offsetsFrom = (ms: number | undefined) =>
    ms === undefined ? undefined : offsetsAt(admin, topic, ms)
  const starts = await offsetsFrom(sinceMs && sinceMs - CLOCKS_DIFFER_MS)
  const ends = await offsetsFrom(untilMs)
  return all.filter(({ partition }) => wanted.has(partition)).map(({ partition, low, high }) => {
    const asked = [starts?.get(partition), from && (from.get(partition) ?? 0n)]
      .filter(offset => offset !== undefined)
    const end = ends?.get(partition) ?? BigInt(high)
    const start = asked.reduce((least, offset) => offset < least ? offset : least, asked[0] ?? 0n)
    return { partition, start: start < BigInt(low) ? BigInt(low) : start, end }
  })
}

/** Of each partition the offset of the first message written at that moment or later, if any. */
async function offsetsAt (
  admin: Admin, topic: string, ms: number
): Promise<ReadonlyMap<number, bigint>> {
  const found = await admin.fetchTopicOffsetsByTimestamp(topic, ms)
  return new Map(found.map(({ partition, offset }) => [partition, BigInt(offset)] as const)
    .filter(([, offset]) => offset >= 0n))
}

/** Lets the group begin there. What is committed here is gone with the group. */
async function begin (
  kafka: Kafka, { topic, groupId }: Reading, open: readonly Bounds[]
): Promise<void> {
  const partitions = open.map(({ partition, start }) => ({ partition, offset: String(start) }))
  await asAdmin(kafka, admin => admin.setOffsets({ groupId, topic, partitions }))
}

/**
 * A consumer whose group is its own and which commits nothing: kafkajs has no other way to read.
 */
async function consumeUntil (
  kafka: Kafka, { topic, groupId, signal, onBatch }: Reading, bounds: readonly Bounds[]
): Promise<void> {
  const open = new Map(bounds.map(({ partition, end }) => [partition, end]))
  const over = Promise.withResolvers<void>()
  // It may fail while nobody waits for it yet.
  over.promise.catch(() => {})
  let isBegun = false
  const consumer = kafka.consumer({
    groupId,
    maxWaitTimeInMs: 100,
    maxBytesPerPartition: FETCHED_BYTES,
    allowAutoTopicCreation: false,
    partitionAssigners: [assignOnly(topic, [...open.keys()])],
    // A coordinator that still loads refuses a member at once; behind the first batch a new start
    // would hand over the same messages again.
    retry: { retries: 5, restartOnFailure: async () => !isBegun },
  })
  consumer.on(consumer.events.CRASH, ({ payload: { error, restart } }) => {
    if (!restart) over.reject(error)
  })
  const watch = createWatch(over.reject, signal)
  try {
    await start(consumer, topic, async batch => {
      isBegun = true
      watch.moved()
      const { topic, partition, messages } = batch
      const end = open.get(partition) ?? 0n
      const wanted = messages.filter(({ offset }) => BigInt(offset) < end)
      if (wanted.length > 0) await onBatch({ topic, partition, messages: wanted })
      if (BigInt(batch.lastOffset()) + 1n >= end) open.delete(partition)
      if (open.size === 0) over.resolve()
    })
    await over.promise
  } finally {
    watch.end()
    await consumer.disconnect()
  }
}

async function start (
  consumer: Consumer, topic: string, onBatch: (batch: Batch) => Promise<void>
): Promise<void> {
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await consumer.run({ autoCommit: false, eachBatch: ({ batch }) => onBatch(batch) })
}

/** Gives up when nothing has come for too long, or when the search is called off. */
function createWatch (fail: (error: unknown) => void, signal: AbortSignal) {
  const ended = new AbortController()
  const stop = AbortSignal.any([signal, ended.signal])
  let movedAtMs = performance.now()
  const watch = async () => {
    for (;;) {
      const leftMs = movedAtMs + QUIET_MS - performance.now()
      if (leftMs <= 0) throw new Error(`nothing was read for ${QUIET_MS} ms`)
      await sleep(leftMs, stop)
    }
  }
  watch().catch(fail)
  return { moved: () => { movedAtMs = performance.now() }, end: () => ended.abort() }
}

/** The group has one member, which needs no other partitions than these. */
function assignOnly (topic: string, partitions: number[]): PartitionAssigner {
  const { MemberAssignment, MemberMetadata } = AssignerProtocol
  const name = 'whole-topic'
  const version = 0
  const userData = Buffer.alloc(0)
  return () => ({
    name,
    version,
    assign: async ({ members }) => members.map(({ memberId }, index) => ({
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
