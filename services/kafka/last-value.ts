import { randomUUID } from 'node:crypto'
import { Partitioners, type Admin, type Kafka } from 'kafkajs'
import { InfrastructureError } from '../platform/errors.ts'
import type { MessageMac } from './message-mac.ts'
import { rawMessage } from './partition-reader.ts'
import { readToEnd } from './topic-reader.ts'

export type LastValues = {
  /**
   * The value of the newest message with this key: undefined when there is none, or there was a
   * tombstone. Forged messages are left out.
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

/**
 * Searches topics for the newest values of keys. One search runs at a time, and it takes along all
 * keys of its topic that were asked for meanwhile: whoever lost one key may have lost them all.
 */
export function createLastValues (
  { build, clientId, mac }: {
    readonly build: () => Kafka
    readonly clientId: string
    readonly mac?: MessageMac | undefined
  }
): LastValues {
  const closing = new AbortController()
  let waiting: readonly Question[] = []
  let searching: Promise<void> | undefined

  const answer = async (questions: readonly Question[], topic: string) => {
    const keys = [...new Set(questions.map(({ key }) => key))]
    const groupId = `${clientId}.last-value.${randomUUID()}`
    try {
      const found = await search(build(), {
        topic, keys, groupId, mac, signal: closing.signal,
      })
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
  readonly mac: MessageMac | undefined
  readonly signal: AbortSignal
}

/** Reads the partitions of these keys from their beginnings to the ends they have now. */
async function search (
  kafka: Kafka, { topic, keys, groupId, mac, signal }: Search
): Promise<Found> {
  const wanted = new Set(keys)
  const newest = new Map<string, Buffer | null>()
  await readToEnd(kafka, {
    topic,
    groupId,
    signal,
    only: admin => partitionsOf(admin, { topic, keys }),
    onBatch: batch => {
      for (const message of batch.messages) {
        const key = String(message.key)
        if (!wanted.has(key) || newest.get(key) === null) continue
        if (rawMessage(batch, message, mac).forged !== true) newest.set(key, message.value)
      }
    },
  })
  return newest
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
