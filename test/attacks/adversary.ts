import { Kafka, logLevel } from 'kafkajs'
import { randomBytes } from 'node:crypto'
import type { RawMessage } from '../../services/runtime/kafka/bus.ts'
import { withAdmin } from '../../services/runtime/kafka/admin.ts'
import { createTopicReader } from '../../services/runtime/kafka/topic-reader.ts'
import { createMessageMac } from '../../services/runtime/crypto/mac.ts'
import {
  createCodec, registrySource, type Codec,
} from '../../services/runtime/kafka/registry.ts'
import { logicalTopic } from '../../services/runtime/platform/topics.ts'

type Fields = Record<string, unknown>
type Captured = Pick<RawMessage, 'topic' | 'key' | 'value' | 'headers'>

/** Where the broker shall put a message, whatever its key is. */
export type Sent = Captured & { readonly partition?: number }

export type Adversary = {
  /** All messages of a topic that are there now. */
  readonly capture: (topic: string) => Promise<readonly RawMessage[]>
  /** Resolves when the broker has all of them. */
  readonly send: (messages: readonly Sent[]) => Promise<void>
  /**
   * Removes the records of each partition below an offset, given those of the oldest and of the
   * next one.
   */
  readonly remove: (topic: string, below: (low: number, high: number) => number) => Promise<void>
  /** The message with other fields in its value, and the headers that it came with. */
  readonly changed: (message: Captured, change: (value: Fields) => Fields) => Promise<Captured>
  readonly codec: Codec
  readonly close: () => Promise<void>
}

/** An attacker with all rights at the brokers and the registry, but without the service keys. */
export async function createAdversary (
  env: Readonly<Record<string, string>>
): Promise<Adversary> {
  const { KAFKA_BROKERS = '', SCHEMA_REGISTRY_URL = '' } = env
  const brokers = KAFKA_BROKERS.split(',')
  const codec = createCodec(registrySource({ SCHEMA_REGISTRY_URL }))
  const kafka = new Kafka({ brokers: [...brokers], logLevel: logLevel.NOTHING })
  const producer = kafka.producer()
  await producer.connect()
  const { read } = createTopicReader({ brokers, clientId: 'adversary' })
  return {
    codec,
    capture: async topic => {
      const found: RawMessage[] = []
      await read(topic, messages => { found.push(...messages) })
      return found
    },
    send: async messages => {
      const topicMessages = [...Map.groupBy(messages, ({ topic }) => topic)].map(
        ([topic, some]) => ({
          topic, messages: some.map(({ headers, ...one }) => ({ ...one, headers: { ...headers } })),
        }))
      await producer.sendBatch({ topicMessages, acks: -1 })
    },
    remove: (topic, below) => withAdmin({ brokers }, async admin => {
      const ends = await admin.fetchTopicOffsets(topic)
      const partitions = ends.map(({ partition, low, high }) =>
        ({ partition, offset: String(below(Number(low), Number(high))) }))
      await admin.deleteTopicRecords({ topic, partitions })
    }),
    changed: async (message, change) => {
      const topic = logicalTopic(message.topic)?.topic
      if (topic === undefined || message.value === null) return message
      const value = await codec.decode(topic, message.value) as Fields
      return { ...message, value: await codec.encode(`${topic}-value`, change(value)) }
    },
    close: () => producer.disconnect(),
  }
}

const adversaryMac = createMessageMac({
  MESSAGE_KEYS: { 1: randomBytes(32).toString('base64') }, MESSAGE_KEY_ACTIVE: '1',
})

/** The message signed with a key of the adversary's own, under the id of ours. */
export function signedByAdversary (message: Captured): Captured {
  const { headers } = adversaryMac.sign({ ...message, key: String(message.key) })
  return { ...message, headers }
}
