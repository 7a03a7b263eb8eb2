import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { SchemaRegistry } from '@kafkajs/confluent-schema-registry'
import avro from 'avsc'
import kafkajs, {
  Kafka, logLevel, type Consumer, type KafkaConfig, type Message, type Producer,
} from 'kafkajs'
import {
  FeedSealError, keyIdIn, keyIdOf, openResult, sealContact, type FeedCells,
} from '../../schemas/feeds/seal.ts'
import type { FeedContact, FeedResult } from '../../schemas/types.ts'

/** Brokers are reached openly and as anybody without `ssl` and `sasl`. */
export type FeedOptions = Readonly<Pick<KafkaConfig, 'ssl' | 'sasl'>> & {
  readonly brokers: readonly string[]
  readonly registryUrl: string
  readonly partner: string
  /** The partner's keys: the first seals contacts, each opens results. */
  readonly keys: readonly [sealing: Buffer, ...others: Buffer[]]
}

export type ContactToSend = {
  readonly reference: string
  readonly service: string
  readonly countryCode: string
  readonly forceFresh: boolean
  readonly input: string
}

export type ContactResult = {
  readonly resultId: string
  readonly reference: string
  readonly cells: FeedCells
}

export type FeedConnection = {
  /** Seals and sends contacts; resolves when the brokers have them. */
  readonly send: (contacts: readonly ContactToSend[]) => Promise<void>
  /** Lets everything sent so far be taken up at once. */
  readonly end: () => Promise<void>
  /** Told of every result from now on; one that comes again has the same id. */
  readonly listen: (
    onResult: (result: ContactResult) => void, onFailure: (error: unknown) => void,
  ) => Promise<void>
  readonly close: () => Promise<void>
}

/** What a partner can do something about. */
export class FeedError extends Error {
  override readonly name = 'FeedError'
}

const { Partitioners } = kafkajs
const PREFIX_BYTES = 5
const SUBMITTED = avroType('feeds.submitted')

/** Connects to a partner's pair of topics. */
export async function openFeed (options: FeedOptions): Promise<FeedConnection> {
  const { partner, keys, ssl, sasl } = options
  const kafka = new Kafka({
    clientId: `partner.${partner}`,
    brokers: [...options.brokers],
    ...ssl === undefined ? {} : { ssl },
    ...sasl === undefined ? {} : { sasl },
    logLevel: logLevel.NOTHING,
  })
  const registry = new SchemaRegistry({ host: options.registryUrl })
  const topics = { submitted: `feeds.${partner}.submitted`, finished: `feeds.${partner}.finished` }
  const offsets = await endsOf(kafka, topics, partner)
  const schemaId = await registry.getRegistryIdBySchema(
    'feeds.submitted-value', SUBMITTED.json as never)
  const producer = createProducer(kafka)
  const consumer = kafka.consumer({
    groupId: `partner.${partner}.${randomUUID()}`,
    allowAutoTopicCreation: false,
    maxWaitTimeInMs: 100,
  })
  const messageOf = createSealing(options, { schemaId, partitions: offsets.submitted })
  const end = {
    reference: '',
    service: '',
    countryCode: '',
    forceFresh: false,
    sealed: null,
    partition: 0,
    sender: '',
    sequence: 0,
    sentAt: 0,
  }
  return {
    send: async contacts => producer.send(topics.submitted, contacts.map(messageOf)),
    end: async () => producer.send(topics.submitted, offsets.submitted.map(({ partition }) =>
      ({ partition, key: 'end', value: encoded(schemaId, { ...end, end: true }) }))),
    listen: (onResult, onFailure) => listen(consumer, {
      topic: topics.finished,
      // Results from before belong to whoever sent their contacts.
      from: offsets.finished,
      onFailure,
      onMessage: async value => {
        const result = await registry.decode(value) as FeedResult
        openInto({ partner, keys }, result, { onResult, onFailure })
      },
    }),
    close: async () => {
      await Promise.all([producer.close(), consumer.disconnect()])
    },
  }
}

/**
 * Seals each contact once, for one partition and with a sequence of its own: `feed` takes what is
 * sent again, by a producer or by a stranger, for the copy that it is.
 */
function createSealing (
  { partner, keys: [key] }: FeedOptions,
  { schemaId, partitions }:
  { readonly schemaId: number, readonly partitions: readonly { readonly partition: number }[] }
): (contact: ContactToSend) => Message {
  const sender = randomUUID()
  const choose = Partitioners.DefaultPartitioner()
  const partitionMetadata = partitions.map(({ partition }) => ({
    partitionId: partition, leader: 0, partitionErrorCode: 0, replicas: [], isr: [],
  }))
  let sequence = 0
  return ({ input, ...contact }) => {
    const message = { key: contact.reference, value: null }
    const partition = choose({ topic: '', partitionMetadata, message })
    const place = { ...contact, partition, sender, sequence: ++sequence, sentAt: Date.now() }
    const sealed = sealContact(key, { partner, ...place }, input)
    const value = encoded(schemaId, { ...place, sealed, end: false })
    return { key: contact.reference, partition, value }
  }
}

type Listening = {
  readonly topic: string
  readonly from: readonly { readonly partition: number, readonly offset: string }[]
  readonly onMessage: (value: Buffer) => Promise<void>
  readonly onFailure: (error: unknown) => void
}

async function listen (
  consumer: Consumer, { topic, from, onMessage, onFailure }: Listening
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

function openInto (
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
    onFailure(new FeedError(`A result for partner ${partner} does not open: ` +
      whyNot(keys, sealed), { cause }))
  }
}

function whyNot (keys: readonly Buffer[], sealed: Buffer): string {
  const known = keys.map(keyIdOf)
  try {
    const id = keyIdIn(sealed)
    return known.includes(id)
      ? 'it was changed after it was sealed.'
      : `it is sealed by key ${id}, and FEED_KEY has only ${known.join(', ')}. Add that key: ` +
        'FEED_KEY="new,old".'
  } catch (error) {
    if (error instanceof FeedSealError) return `${error.message}.`
    throw error
  }
}

/** Where the topics end now; tells a partner that there is no such feed. */
async function endsOf (
  kafka: Kafka, topics: { readonly submitted: string, readonly finished: string }, partner: string
) {
  const admin = kafka.admin()
  await admin.connect()
  try {
    // One after the other: where there are several brokers, the first look-up would take away what
    // the second knows of leaders.
    const submitted = await patiently(() => admin.fetchTopicOffsets(topics.submitted))
    const finished = await patiently(() => admin.fetchTopicOffsets(topics.finished))
    return { submitted, finished }
  } catch (cause) {
    if (!isUnknownTopic(cause)) throw cause
    throw new FeedError(`There is no feed of a partner ${partner} here. Make one: ` +
      `npm run workspace -- partner create --org <id> --name ${partner}`, { cause })
  } finally {
    await admin.disconnect()
  }
}

/**
 * One request at a time; after a rejection a new producer sends the same again, as one of kafkajs
 * that was rejected may lose what it acknowledges. Of a contact that arrives twice the second copy
 * is ignored.
 */
function createProducer (kafka: Kafka) {
  const build = () => kafka.producer({
    idempotent: true,
    maxInFlightRequests: 1,
    allowAutoTopicCreation: false,
    createPartitioner: Partitioners.DefaultPartitioner,
  })
  let client: Producer | undefined
  let queue: Promise<void> = Promise.resolve()
  const sendOnce = async (topic: string, messages: Message[]) => {
    if (client === undefined) {
      client = build()
      await client.connect()
    }
    await client.send({ topic, messages, acks: -1 })
  }
  const send = async (topic: string, messages: Message[]) => {
    for (let attempt = 1; ; attempt++) {
      try {
        return await sendOnce(topic, messages)
      } catch (error) {
        client?.disconnect().catch(() => {})
        client = undefined
        if (attempt === TRIES) throw error
        await delay(RETRY_MS * attempt)
      }
    }
  }
  return {
    send: (topic: string, messages: Message[]) => {
      queue = queue.then(() => send(topic, messages))
      return queue
    },
    close: async () => { await client?.disconnect() },
  }
}

const TRIES = 10
const RETRY_MS = 500

/** Topics that were made a moment ago may not have their leaders yet. */
async function patiently<T> (action: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await action()
    } catch (error) {
      const { retriable } = error as { retriable?: unknown }
      if (retriable !== true || isUnknownTopic(error) || attempt === TRIES) throw error
      await delay(RETRY_MS)
    }
  }
}

/** kafkajs may have tried several times, and then wraps what it was told. */
function isUnknownTopic (error: unknown): boolean {
  const { type, cause } = error as { type?: unknown, cause?: { type?: unknown } }
  return [type, cause?.type].includes('UNKNOWN_TOPIC_OR_PARTITION')
}

function avroType (topic: string) {
  const file = new URL(`../../schemas/${topic}.avsc`, import.meta.url)
  const json = JSON.parse(readFileSync(file, 'utf8')) as avro.Schema
  return { json, type: avro.Type.forSchema(json) }
}

/** The registry's wire format: a zero byte, the schema id (32 bits), the content. */
function encoded (schemaId: number, value: FeedContact): Buffer {
  const prefix = Buffer.alloc(PREFIX_BYTES)
  prefix.writeUInt32BE(schemaId, 1)
  return Buffer.concat([prefix, SUBMITTED.type.toBuffer(value)])
}
