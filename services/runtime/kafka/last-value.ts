import { randomUUID } from 'node:crypto'
import { Partitioners } from 'kafkajs'
import { InfrastructureError } from '../platform/errors.ts'
import type { MessageMac } from './message-mac.ts'
import type { KafkaAdmin, KafkaClient } from './client.ts'
import { rawMessage } from './consumer.ts'
import { readToEnd } from './topic-reader.ts'

export type LastValues = {
  /**
   * The value of the last message with this key; undefined when there is none, or there was a
   * tombstone. Forged messages are ignored.
   * @throws InfrastructureError when the topic cannot be read to its end.
   */
  readonly find: (topic: string, key: string) => Promise<Buffer | undefined>
  /** Cancels all searches. */
  readonly close: () => Promise<void>
}

type Found = ReadonlyMap<string, Buffer | null>
type Lookup = PromiseWithResolvers<Buffer | undefined> & {
  readonly topic: string, readonly key: string
}

/**
 * Searches topics for the last values of keys. One search runs at a time and covers all requested
 * keys of its topic: after a loss of data, many keys are requested at once.
 */
export function createLastValues (
  { build, clientId, mac }: {
    readonly build: () => KafkaClient
    readonly clientId: string
    readonly mac?: MessageMac | undefined
  }
): LastValues {
  const closing = new AbortController()
  let waiting: readonly Lookup[] = []
  let searching: Promise<void> | undefined

  const searchFor = async (lookups: readonly Lookup[], topic: string) => {
    const keys = [...new Set(lookups.map(({ key }) => key))]
    const groupId = `${clientId}.last-value.${randomUUID()}`
    try {
      const values = await search(build(), {
        topic, keys, groupId, mac, signal: closing.signal,
      })
      for (const { key, resolve } of lookups) resolve(values.get(key) ?? undefined)
    } catch (cause) {
      const error = new InfrastructureError(
        `search of topic ${topic} for ${keys.length} keys failed`, { cause })
      for (const { reject } of lookups) reject(error)
    }
  }
  const work = async () => {
    for (let [next] = waiting; next !== undefined; [next] = waiting) {
      const { topic } = next
      const { same = [], other = [] } = Object.groupBy(waiting, lookup =>
        lookup.topic === topic ? 'same' : 'other')
      waiting = other
      await searchFor(same, topic)
    }
    searching = undefined
  }
  return {
    find: (topic, key) => {
      const lookup = { topic, key, ...Promise.withResolvers<Buffer | undefined>() }
      waiting = [...waiting, lookup]
      searching ??= Promise.resolve().then(work)
      return lookup.promise
    },
    close: async () => {
      closing.abort(new Error('the search for a value was canceled: the process stops'))
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

/** Reads the partitions of these keys from the start to their current end. */
async function search (
  kafka: KafkaClient, { topic, keys, groupId, mac, signal }: Search
): Promise<Found> {
  const wanted = new Set(keys)
  const last = new Map<string, Buffer | null>()
  await readToEnd(kafka, {
    topic,
    groupId,
    signal,
    only: admin => partitionsOf(admin, { topic, keys }),
    onBatch: batch => {
      for (const message of batch.messages) {
        const key = String(message.key)
        if (!wanted.has(key) || last.get(key) === null) continue
        if (rawMessage(batch, message, mac).forged !== true) last.set(key, message.value)
      }
    },
  })
  return last
}

/** The partitions of these keys by the default partitioner of kafkajs. */
async function partitionsOf (
  admin: KafkaAdmin, { topic, keys }: Pick<Search, 'topic' | 'keys'>
): Promise<ReadonlySet<number>> {
  const { topics: [metadata] } = await admin.fetchTopicMetadata({ topics: [topic] })
  const partitionMetadata = metadata?.partitions ?? []
  const partitionOf = Partitioners.DefaultPartitioner()
  return new Set(keys.map(key =>
    partitionOf({ topic, partitionMetadata, message: { key, value: null } })))
}
