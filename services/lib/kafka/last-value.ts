import { randomUUID } from 'node:crypto'
import {
  AssignerProtocol, Partitioners, type Admin, type Kafka, type PartitionAssigner,
} from 'kafkajs'
import { InfrastructureError } from '../errors.ts'
import { sleep } from '../retry.ts'

export type LastValues = {
  /**
   * The value of the newest message with this key: undefined when there is none, or a tombstone.
   * @throws InfrastructureError when the topic can't be read to its end.
   */
  readonly find: (topic: string, key: string) => Promise<Buffer | undefined>
  /** Ends every search. */
  readonly close: () => Promise<void>
}

type Found = ReadonlyMap<string, Buffer | null>
type Question = PromiseWithResolvers<Buffer | undefined> & {
  readonly topic: string, readonly key: string
}

/** A partition is read at tens of megabytes a second: so long without any message is an outage. */
const QUIET_MS = 20_000

/**
 * Searches topics for the newest values of keys. One search runs at a time, and it takes along all
 * keys of its topic that were asked for meanwhile: whoever lost one key may have lost them all.
 */
export function createLastValues (
  { build, clientId }: { readonly build: () => Kafka, readonly clientId: string }
): LastValues {
  const closing = new AbortController()
  let waiting: readonly Question[] = []
  let searching: Promise<void> | undefined

  const answer = async (questions: readonly Question[], topic: string) => {
    const keys = [...new Set(questions.map(({ key }) => key))]
    const groupId = `${clientId}.last-value.${randomUUID()}`
    try {
      const found = await search(build(), { topic, keys, groupId, signal: closing.signal })
      for (const { key, resolve } of questions) resolve(found.get(key) ?? undefined)
    } catch (cause) {
      const error = new InfrastructureError(`${topic} could not be searched`, { cause })
      for (const { reject } of questions) reject(error)
    }
  }
  const work = async () => {
    for (let [next] = waiting; next !== undefined; [next] = waiting) {
      const { topic } = next
      const { same = [], other = [] } = Object.groupBy(waiting, question =>
        question.topic === topic ? 'same' : 'other')
      waiting = other
      await answer(same, topic)
    }
    searching = undefined
  }
  return {
    find: (topic, key) => {
      const question = { topic, key, ...Promise.withResolvers<Buffer | undefined>() }
      waiting = [...waiting, question]
      searching ??= Promise.resolve().then(work)
      return question.promise
    },
    close: async () => {
      closing.abort(new Error('the search for a value is called off'))
      await searching
    },
  }
}

type Search = {
  readonly topic: string
  readonly keys: readonly string[]
  readonly groupId: string
  readonly signal: AbortSignal
}

/** Reads the partitions of these keys from their beginnings to the ends they have now. */
async function search (kafka: Kafka, { topic, keys, groupId, signal }: Search): Promise<Found> {
  signal.throwIfAborted()
  const admin = kafka.admin()
  await admin.connect()
  try {
    const ends = new Map((await admin.fetchTopicOffsets(topic))
      .filter(({ low, high }) => low !== high)
      .map(({ partition, high }) => [partition, BigInt(high)]))
    const partitions = await partitionsOf(admin, { topic, keys })
    const open = new Map([...ends].filter(([partition]) => partitions.has(partition)))
    if (open.size === 0) return new Map()
    return await read(kafka, { topic, keys, groupId, signal, open })
  } finally {
    // The broker forgets empty groups by itself, but not at once.
    await admin.deleteGroups([groupId]).catch(() => {})
    await admin.disconnect()
  }
}

/** The partitions that kafkajs' producer puts these keys into. */
async function partitionsOf (
  admin: Admin, { topic, keys }: Pick<Search, 'topic' | 'keys'>
): Promise<ReadonlySet<number>> {
  const { topics: [metadata] } = await admin.fetchTopicMetadata({ topics: [topic] })
  const partitionMetadata = metadata?.partitions ?? []
  const partitionOf = Partitioners.DefaultPartitioner()
  return new Set(keys.map(key =>
    partitionOf({ topic, partitionMetadata, message: { key, value: null } })))
}

/**
 * A consumer whose group is its own and which commits nothing: kafkajs has no other way to read.
 */
async function read (
  kafka: Kafka,
  { topic, keys, groupId, signal, open }: Search & { readonly open: Map<number, bigint> }
): Promise<Found> {
  const wanted = new Set(keys)
  const newest = new Map<string, Buffer | null>()
  const over = Promise.withResolvers<void>()
  // It may fail while nobody waits for it yet.
  over.promise.catch(() => {})
  const consumer = kafka.consumer({
    groupId,
    maxWaitTimeInMs: 100,
    allowAutoTopicCreation: false,
    partitionAssigners: [assignOnly(topic, [...open.keys()])],
    retry: { retries: 5, restartOnFailure: async () => false },
  })
  consumer.on(consumer.events.CRASH, ({ payload }) => over.reject(payload.error))
  const watch = createWatch(over.reject, signal)
  try {
    await consumer.connect()
    await consumer.subscribe({ topics: [topic], fromBeginning: true })
    await consumer.run({
      autoCommit: false,
      eachBatch: async ({ batch }) => {
        watch.moved()
        for (const { key, value } of batch.messages) {
          if (key !== null && wanted.has(String(key))) newest.set(String(key), value)
        }
        const end = open.get(batch.partition) ?? 0n
        if (BigInt(batch.lastOffset()) + 1n >= end) open.delete(batch.partition)
        if (open.size === 0) over.resolve()
      },
    })
    await over.promise
    return newest
  } finally {
    watch.end()
    await consumer.disconnect()
  }
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
  const name = 'last-value'
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
