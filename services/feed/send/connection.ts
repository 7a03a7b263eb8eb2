import { randomUUID } from 'node:crypto'
import { logLevel, type Message, Partitioners } from 'kafkajs'
import Type from 'typebox'
import {
  type FeedCells, FeedSealError, keyIdIn, deriveKeyId, openResult, sealContact,
} from '../../../schemas/feeds/seal.ts'
import type { FeedContact, FeedResult } from '../../../schemas/types.ts'
import { CommandError } from '../../client/terminal.ts'
import type { OutgoingMessage } from '../../runtime/kafka/bus.ts'
import {
  createKafka, type KafkaClient, type KafkaConsumer, withClientAdmin,
} from '../../runtime/kafka/client.ts'
import { isTransient, kafkaErrorType, toKafkaConnection } from '../../runtime/kafka/connection.ts'
import { createKafkaBus } from '../../runtime/kafka/kafka-bus.ts'
import { createCodec, registrySource } from '../../runtime/kafka/registry.ts'
import {
  commonConfig, kafkaKeys, loadConfig, pick, registryKeys,
} from '../../runtime/platform/config.ts'
import { retry } from '../../runtime/platform/retry.ts'
import { topicName } from '../../runtime/platform/topics.ts'

const config = Type.Object(pick(commonConfig, [...kafkaKeys, ...registryKeys]))

/** Reads the settings that services have for Kafka and the schema registry. */
export const readFeedSettings = (env: Readonly<Record<string, string | undefined>>) =>
  loadConfig(config, env)

export type FeedOptions = {
  readonly settings: ReturnType<typeof readFeedSettings>
  readonly partner: string
  /** The keys of the partner: the first one seals contacts, every one opens results. */
  readonly keys: readonly [sealing: Buffer, ...others: Buffer[]]
}

type ContactToSend = {
  readonly reference: string
  readonly service: string
  readonly countryCode: string
  readonly forceFresh: boolean
  readonly input: string
}

/** A result with the reference of the sender. */
export type ContactResult = {
  readonly resultId: string
  readonly reference: string
  readonly cells: FeedCells
}

export type FeedConnection = {
  /** Seals and sends contacts. Resolves when the brokers have acknowledged them. */
  readonly send: (contacts: readonly ContactToSend[]) => Promise<void>
  /** Flushes the feed: the service processes everything sent so far without waiting. */
  readonly end: () => Promise<void>
  /** Receives every later result. A redelivered result has the same id. */
  readonly listen: (
    onResult: (result: ContactResult) => void, onFailure: (error: unknown) => void,
  ) => Promise<void>
  readonly close: () => Promise<void>
}

const SEND_TIMEOUT_MS = 60_000
const END: FeedContact = {
  reference: '',
  service: '',
  countryCode: '',
  forceFresh: false,
  sealed: null,
  partition: 0,
  sender: '',
  sequence: 0,
  sentAt: 0,
  end: true,
}

/**
 * Connects to the two topics of a partner. Throws CommandError when the partner has no feed on
 * these brokers.
 */
export async function openFeed (options: FeedOptions): Promise<FeedConnection> {
  const { settings, partner, keys } = options
  const connection = toKafkaConnection(settings)
  const clientId = `partner.${partner}`
  const kafka = createKafka(connection, { clientId, logLevel: logLevel.NOTHING })
  const codec = createCodec(registrySource(settings))
  const submitted = topicName('feeds.submitted', { partner })
  const finished = topicName('feeds.finished', { partner })
  const [partitions, from] = await readEndOffsets(kafka, [submitted, finished], partner)
  // Not even the first contact is sealed if the registry does not know its schema.
  await codec.encode('feeds.submitted-value', END)
  const refused = new AbortController()
  const bus = createKafkaBus({
    ...connection,
    clientId,
    onFatal: () => {},
    log: (level, message) => {
      if (level === 'error') refused.abort(new CommandError(`${message}.`))
    },
  })
  const consumer = kafka.consumer({
    groupId: `partner.${partner}.${randomUUID()}`,
    allowAutoTopicCreation: false,
    maxWaitTimeInMs: 100,
  })
  const send = async (messages: readonly OutgoingMessage[]) => {
    const late = AbortSignal.timeout(SEND_TIMEOUT_MS)
    try {
      await bus.producer('feed').send(messages, AbortSignal.any([late, refused.signal]))
    } catch (cause) {
      if (!late.aborted) throw cause
      throw new CommandError('Kafka has not acknowledged contacts for ' +
        `${SEND_TIMEOUT_MS / 1_000} s. Check that it is running.`, { cause })
    }
  }
  const toMessage = (partition: number, key: string, value: Buffer): OutgoingMessage =>
    ({ topic: submitted, partition, key, value, headers: {} })
  const seal = createSealer(options, partitions.map(({ partition }) => partition))
  return {
    send: async contacts => {
      const sealed = contacts.map(seal)
      await send(await Promise.all(sealed.map(async contact => toMessage(contact.partition,
        contact.reference, await codec.encode('feeds.submitted-value', contact)))))
    },
    end: async () => {
      const value = await codec.encode('feeds.submitted-value', END)
      await send(partitions.map(({ partition }) => toMessage(partition, 'end', value)))
    },
    listen: (onResult, onFailure) => listen(consumer, {
      topic: finished,
      // Earlier results belong to earlier runs.
      from,
      onFailure,
      onMessage: async value => {
        const result = await codec.decode('feeds.finished', value) as FeedResult
        deliver({ partner, keys }, result, { onResult, onFailure })
      },
    }),
    close: async () => {
      await Promise.all([bus.close(), consumer.disconnect()])
    },
  }
}

/**
 * Seals each contact once, for one partition and with its own sequence number, so that `feed`
 * detects replays, whether by a retrying producer or by an attacker.
 */
function createSealer (
  { partner, keys: [key] }: FeedOptions, partitions: readonly number[]
): (contact: ContactToSend) => FeedContact {
  const sender = randomUUID()
  const choose = Partitioners.DefaultPartitioner()
  const partitionMetadata = partitions.map(partition => ({
    partitionId: partition, leader: 0, partitionErrorCode: 0, replicas: [], isr: [],
  }))
  let sequence = 0
  return ({ input, ...contact }) => {
    const message: Message = { key: contact.reference, value: null }
    const partition = choose({ topic: '', partitionMetadata, message })
    const envelope = { ...contact, partition, sender, sequence: ++sequence, sentAt: Date.now() }
    return { ...envelope, sealed: sealContact(key, { partner, ...envelope }, input), end: false }
  }
}

type ListenOptions = {
  readonly topic: string
  readonly from: readonly { readonly partition: number, readonly offset: string }[]
  readonly onMessage: (value: Buffer) => Promise<void>
  readonly onFailure: (error: unknown) => void
}

async function listen (
  consumer: KafkaConsumer, { topic, from, onMessage, onFailure }: ListenOptions
): Promise<void> {
  consumer.on(consumer.events.CRASH, ({ payload }) => {
    if (!payload.restart) onFailure(payload.error)
  })
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await consumer.run({
    autoCommit: false,
    eachBatch: async ({ batch, heartbeat }) => {
      for (const { value } of batch.messages) if (value !== null) await onMessage(value)
      await heartbeat()
    },
  })
  for (const { partition, offset } of from) consumer.seek({ topic, partition, offset })
}

/** Opens a sealed result and passes it, or the reason why it cannot be opened, to a handler. */
function deliver (
  { partner, keys }: Pick<FeedOptions, 'partner' | 'keys'>, result: FeedResult,
  { onResult, onFailure }: {
    onResult: (result: ContactResult) => void, onFailure: (error: unknown) => void,
  }
): void {
  const { resultId, reference, sealed } = result
  try {
    const cells = openResult(keys, { partner, reference, resultId }, sealed)
    onResult({ resultId, reference, cells })
  } catch (cause) {
    onFailure(new CommandError(`Cannot open a result of partner ${partner}: ` +
      openFailure(keys, sealed), { cause }))
  }
}

function openFailure (keys: readonly Buffer[], sealed: Buffer): string {
  const ids = keys.map(deriveKeyId)
  try {
    const id = keyIdIn(sealed)
    return ids.includes(id)
      ? 'it was modified after sealing.'
      : `it is sealed with key ${id}, but FEED_KEY contains only ${ids.join(', ')}. Add that ` +
        'key: FEED_KEY="new,old".'
  } catch (error) {
    if (error instanceof FeedSealError) return `${error.message}.`
    throw error
  }
}

const TRIES = 10

/** The current end offsets of topics. New ones may not have leaders yet. */
async function readEndOffsets (
  kafka: KafkaClient, topics: readonly [string, string], partner: string
) {
  const isUnknown = (error: unknown) => kafkaErrorType(error) === 'UNKNOWN_TOPIC_OR_PARTITION'
  try {
    return await withClientAdmin(kafka, async admin => {
      const read = (topic: string) => retry(TRIES, () => admin.fetchTopicOffsets(topic), {
        firstMs: 500, when: error => isTransient(error) && !isUnknown(error),
      })
      // Sequential: with several brokers, concurrent requests would overwrite each other's cached
      // leaders in kafkajs.
      return [await read(topics[0]), await read(topics[1])] as const
    })
  } catch (cause) {
    if (!isUnknown(cause)) throw cause
    throw new CommandError(`The partner ${partner} has no feed on these brokers. Create it: ` +
      `npm run admin -- partner create --org <id> --name ${partner}`, { cause })
  }
}
