import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { SchemaRegistry } from '@kafkajs/confluent-schema-registry'
import avro from 'avsc'
import kafkajs, {
  type Consumer, Kafka, type KafkaConfig, logLevel, type Message, type Producer,
  type ProducerRecord, type SASLOptions,
} from 'kafkajs'
import {
  type FeedCells, FeedSealError, keyIdIn, deriveKeyId, openResult, sealContact,
} from '../../schemas/feeds/seal.ts'
import type { FeedContact, FeedResult } from '../../schemas/types.ts'
import { CommandError } from './terminal.ts'

/** Without `ssl` and `sasl` the connection is unencrypted and anonymous. */
export type FeedOptions = Readonly<Pick<KafkaConfig, 'ssl' | 'sasl'>> & {
  readonly brokers: readonly string[]
  readonly registryUrl: string
  readonly partner: string
  /** What the names of topics, groups and schemas begin with; nothing by default. */
  readonly prefix?: string
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

const { Partitioners } = kafkajs
const PREFIX_BYTES = 5
const SUBMITTED = JSON.parse(readFileSync(
  new URL('../../schemas/feeds.submitted.avsc', import.meta.url), 'utf8')) as avro.Schema
const SUBMITTED_TYPE = avro.Type.forSchema(SUBMITTED)

/**
 * Connects to the two topics of a partner. Throws CommandError when the partner has no feed on
 * these brokers.
 */
export async function openFeed (options: FeedOptions): Promise<FeedConnection> {
  const { partner, keys, ssl, sasl, prefix = '' } = options
  const kafka = new Kafka({
    clientId: `partner.${partner}`,
    brokers: [...options.brokers],
    ssl,
    sasl,
    logLevel: logLevel.NOTHING,
  })
  const registry = new SchemaRegistry({ host: options.registryUrl })
  const topics = {
    submitted: `${prefix}feeds.${partner}.submitted`,
    finished: `${prefix}feeds.${partner}.finished`,
  }
  const offsets = await readEndOffsets(kafka, topics, partner)
  const schemaId = await registry.getRegistryIdBySchema(
    `${prefix}feeds.submitted-value`, SUBMITTED as never)
  const producer = new FeedProducer(kafka)
  const consumer = kafka.consumer({
    groupId: `${prefix}partner.${partner}.${randomUUID()}`,
    allowAutoTopicCreation: false,
    maxWaitTimeInMs: 100,
  })
  const toMessage = createSealer(options, { schemaId, partitions: offsets.submitted })
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
    send: async contacts => producer.send(topics.submitted, contacts.map(toMessage)),
    end: async () => producer.send(topics.submitted, offsets.submitted.map(({ partition }) =>
      ({ partition, key: 'end', value: encode(schemaId, { ...end, end: true }) }))),
    listen: (onResult, onFailure) => listen(consumer, {
      topic: topics.finished,
      // Earlier results belong to earlier runs.
      from: offsets.finished,
      onFailure,
      onMessage: async value => {
        const result = await registry.decode(value) as FeedResult
        deliver({ partner, keys }, result, { onResult, onFailure })
      },
    }),
    close: async () => {
      await Promise.all([producer.close(), consumer.disconnect()])
    },
  }
}

/**
 * Seals each contact once, for one partition and with its own sequence number, so that `feed`
 * detects replays, whether by a retrying producer or by an attacker.
 */
function createSealer (
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
    const envelope = { ...contact, partition, sender, sequence: ++sequence, sentAt: Date.now() }
    const sealed = sealContact(key, { partner, ...envelope }, input)
    const value = encode(schemaId, { ...envelope, sealed, end: false })
    return { key: contact.reference, partition, value }
  }
}

type ListenOptions = {
  readonly topic: string
  readonly from: readonly { readonly partition: number, readonly offset: string }[]
  readonly onMessage: (value: Buffer) => Promise<void>
  readonly onFailure: (error: unknown) => void
}

async function listen (
  consumer: Consumer, { topic, from, onMessage, onFailure }: ListenOptions
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

/** The current end offsets of the topics. */
async function readEndOffsets (
  kafka: Kafka, topics: { readonly submitted: string, readonly finished: string }, partner: string
) {
  const admin = kafka.admin()
  await admin.connect()
  try {
    // Sequential: with several brokers, concurrent requests would overwrite each other's cached
    // leaders in kafkajs.
    const submitted = await retryTemporary(() => admin.fetchTopicOffsets(topics.submitted))
    const finished = await retryTemporary(() => admin.fetchTopicOffsets(topics.finished))
    return { submitted, finished }
  } catch (cause) {
    if (!isUnknownTopic(cause)) throw cause
    throw new CommandError(`The partner ${partner} has no feed on these brokers. Create it: ` +
      `npm run admin -- partner create --org <id> --name ${partner}`, { cause })
  } finally {
    await admin.disconnect()
  }
}

/**
 * Sends one request at a time. After a failure a new producer repeats the request, because a failed
 * kafkajs producer may lose messages that it acknowledges. The service ignores duplicates.
 */
class FeedProducer {
  readonly #kafka: Kafka
  #client: Producer | undefined
  #queue: Promise<void> = Promise.resolve()

  constructor (kafka: Kafka) {
    this.#kafka = kafka
  }

  send (topic: string, messages: Message[]): Promise<void> {
    this.#queue = this.#queue.then(() => this.#sendRetrying(topic, messages))
    return this.#queue
  }

  async close (): Promise<void> {
    await this.#client?.disconnect()
  }

  async #sendRetrying (topic: string, messages: Message[]): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      try {
        await this.#sendOnce({ topic, messages, acks: -1 })
        return
      } catch (error) {
        this.#client?.disconnect().catch(() => {})
        this.#client = undefined
        if (attempt === MAX_ATTEMPTS) throw error
        await delay(RETRY_MS * attempt)
      }
    }
  }

  async #sendOnce (record: ProducerRecord): Promise<void> {
    if (this.#client === undefined) {
      this.#client = this.#kafka.producer({
        idempotent: true,
        maxInFlightRequests: 1,
        allowAutoTopicCreation: false,
        createPartitioner: Partitioners.DefaultPartitioner,
      })
      await this.#client.connect()
    }
    await this.#client.send(record)
  }
}

const MAX_ATTEMPTS = 10
const RETRY_MS = 500

/** Retries temporary errors: new topics may not have leaders yet. */
async function retryTemporary<T> (action: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await action()
    } catch (error) {
      const { retriable } = error as { retriable?: unknown }
      if (retriable !== true || isUnknownTopic(error) || attempt === MAX_ATTEMPTS) throw error
      await delay(RETRY_MS)
    }
  }
}

/** kafkajs wraps the error of a request that it has retried. */
function isUnknownTopic (error: unknown): boolean {
  const { type, cause } = error as { type?: unknown, cause?: { type?: unknown } }
  return [type, cause?.type].includes('UNKNOWN_TOPIC_OR_PARTITION')
}

/** The wire format of the schema registry: a zero byte, the schema id (32 bits), the content. */
function encode (schemaId: number, value: FeedContact): Buffer {
  const prefix = Buffer.alloc(PREFIX_BYTES)
  prefix.writeUInt32BE(schemaId, 1)
  return Buffer.concat([prefix, SUBMITTED_TYPE.toBuffer(value)])
}

type Env = Readonly<Record<string, string | undefined>>

const SASL_KEYS = ['KAFKA_SASL_MECHANISM', 'KAFKA_SASL_USERNAME', 'KAFKA_SASL_PASSWORD'] as const
const MECHANISMS = ['plain', 'scram-sha-256', 'scram-sha-512']

/**
 * Reads TLS and SASL settings from the variables that the services use. Without any, the connection
 * is unencrypted and anonymous. Throws CommandError for an incomplete or invalid setting.
 */
export function kafkaSecurity (env: Env): Pick<KafkaConfig, 'ssl' | 'sasl'> {
  const tls = env['KAFKA_TLS'] || 'false'
  if (!['true', 'false'].includes(tls)) {
    throw new CommandError(`KAFKA_TLS is ${tls}; it must be true or false.`)
  }
  return { ...tls === 'true' ? { ssl: true } : {}, ...readSasl(env) }
}

function readSasl (env: Env): Pick<KafkaConfig, 'sasl'> {
  const missing = SASL_KEYS.filter(key => !env[key])
  if (missing.length === SASL_KEYS.length) return {}
  if (missing.length > 0) {
    throw new CommandError(`${missing.join(' and ')} must be set too: ${SASL_KEYS.join(', ')} ` +
      'belong together.')
  }
  const [mechanism = '', username, password] = SASL_KEYS.map(key => env[key])
  if (!MECHANISMS.includes(mechanism)) {
    throw new CommandError(
      `KAFKA_SASL_MECHANISM is ${mechanism}; it must be one of ${MECHANISMS.join(', ')}.`)
  }
  return { sasl: { mechanism, username, password } as SASLOptions }
}
