import { randomUUID } from 'node:crypto'
import {
  AssignerProtocol, Kafka, logLevel,
  type Admin, type Batch, type Consumer, type PartitionAssigner,
} from 'kafkajs'
import type { RawMessage } from '../bus.ts'
import { InfrastructureError } from '../errors.ts'
import type { MessageMac } from '../message-mac.ts'
import { sleep, times } from '../retry.ts'
import { kafkaOptionsOf, type KafkaConnection } from './connection.ts'
import { rawMessage } from './partition-reader.ts'

export type Reading = {
  readonly topic: string
  /** Used by nobody else; it is gone again afterwards. */
  readonly groupId: string
  readonly signal: AbortSignal
  /** The partitions that matter; all when left out. */
  readonly only?: (admin: Admin) => Promise<ReadonlySet<number>>
  /** Messages written before are left out, as far as the brokers can tell; none when left out. */
  readonly sinceMs?: number | undefined
  /** The next batch of a partition is read when it has resolved. */
  readonly onBatch: (batch: Batch) => Promise<void> | void
}

export type TopicReader = {
  /**
   * Hands over all messages of a topic but forged ones, in the order of each partition, or those
   * written since a moment; the next ones come when `onMessages` has resolved, and an error of its
   * own ends the reading.
   * @throws InfrastructureError when the topic can't be read to its end.
   */
  readonly read: (
    topic: string, onMessages: (messages: readonly RawMessage[]) => Promise<void> | void,
    limits?: { readonly sinceMs?: number, readonly signal?: AbortSignal },
  ) => Promise<void>
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
    read: async (topic, onMessages, { sinceMs, signal = new AbortController().signal } = {}) => {
      let fault: { readonly error: unknown } | undefined
      const failed = new AbortController()
      const onBatch = async (batch: Batch) => {
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
        await readToEnd(kafka, { topic, groupId, sinceMs, signal: until, onBatch })
      } catch (cause) {
        if (fault === undefined) {
          throw new InfrastructureError(`${topic} could not be read`, { cause })
        }
      }
      if (fault !== undefined) throw fault.error
    },
  }
}

/** Reads partitions of a topic from their beginnings to the ends they have now. */
export async function readToEnd (kafka: Kafka, reading: Reading): Promise<void> {
  const { groupId, signal } = reading
  // A leader that has just moved is found only with new metadata, so each try is a new client.
  const open = await times(ENDS_TRIES, () => asAdmin(kafka, admin => endsOf(admin, reading)), {
    signal, maxMs: 1_000, when: error => (error as { retriable?: unknown }).retriable === true,
  })
  if (open.size === 0) return
  try {
    await begin(kafka, reading, open)
    if (open.size === 0) return
    await consumeUntil(kafka, reading, open)
  } finally {
    // The broker forgets empty groups by itself, but not at once.
    await asAdmin(kafka, admin => admin.deleteGroups([groupId])).catch(() => {})
  }
}

const ENDS_TRIES = 20

async function asAdmin<T> (kafka: Kafka, work: (admin: Admin) => Promise<T>): Promise<T> {
  const admin = kafka.admin()
  await admin.connect()
  try {
    return await work(admin)
  } finally {
    await admin.disconnect()
  }
}

/** The offsets at which the partitions end that matter and have messages. */
async function endsOf (
  admin: Admin, { topic, only }: Pick<Reading, 'topic' | 'only'>
): Promise<Map<number, bigint>> {
  const ends = (await admin.fetchTopicOffsets(topic)).filter(({ low, high }) => low !== high)
  const wanted = await only?.(admin) ?? new Set(ends.map(({ partition }) => partition))
  return new Map(ends.filter(({ partition }) => wanted.has(partition))
    .map(({ partition, high }) => [partition, BigInt(high)]))
}

/**
 * Lets the group begin where the messages of that moment are; partitions without any are done. What
 * is committed here is gone with the group.
 */
async function begin (
  kafka: Kafka, { topic, groupId, sinceMs }: Reading, open: Map<number, bigint>
): Promise<void> {
  if (sinceMs === undefined) return
  await asAdmin(kafka, async admin => {
    const found = await admin.fetchTopicOffsetsByTimestamp(topic, sinceMs)
    const starts = found.filter(({ partition, offset }) =>
      BigInt(offset) >= 0n && BigInt(offset) < (open.get(partition) ?? 0n))
    const begun = new Set(starts.map(({ partition }) => partition))
    for (const partition of open.keys()) if (!begun.has(partition)) open.delete(partition)
    if (starts.length > 0) await admin.setOffsets({ groupId, topic, partitions: starts })
  })
}

/**
 * A consumer whose group is its own and which commits nothing: kafkajs has no other way to read.
 * `open` has the offset at which each partition ends.
 */
async function consumeUntil (
  kafka: Kafka, { topic, groupId, signal, onBatch }: Reading, open: Map<number, bigint>
): Promise<void> {
  const over = Promise.withResolvers<void>()
  // It may fail while nobody waits for it yet.
  over.promise.catch(() => {})
  let isBegun = false
  const consumer = kafka.consumer({
    groupId,
    maxWaitTimeInMs: 100,
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
      await onBatch(batch)
      const end = open.get(batch.partition) ?? 0n
      if (BigInt(batch.lastOffset()) + 1n >= end) open.delete(batch.partition)
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
