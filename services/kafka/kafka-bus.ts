import { promisify } from 'node:util'
import { zstdCompress, zstdDecompress } from 'node:zlib'
import kafkajs, {
  Kafka, logLevel, Partitioners, type KafkaConfig, type PartitionerArgs,
} from 'kafkajs'
import { topicNames } from './admin.ts'
import type { Bus, Producer } from './bus.ts'
import type { MessageMac } from './message-mac.ts'
import { InfrastructureError } from '../platform/errors.ts'
import { createLogThrottle } from '../platform/log.ts'
import { kafkaOptionsOf, type KafkaConnection } from './connection.ts'
import { consumerDefaults, startConsumer, type ConsumerSettings } from './consumer.ts'
import { accessErrorOf } from './errors.ts'
import { createLastValues } from './last-value.ts'
import { createSafeProducer, type ProducerClient } from './safe-producer.ts'

export type KafkaLog = (
  level: 'warn' | 'error', message: string,
  details: { readonly error?: unknown, readonly [field: string]: unknown },
) => void

export type KafkaBusOptions = KafkaConnection & {
  readonly clientId: string
  /** Without it, messages are neither signed nor verified. */
  readonly mac?: MessageMac | undefined
  /** Gets the warnings and errors of kafkajs; without it nothing is logged. */
  readonly log?: KafkaLog
  /** Called when a handler rejected or a consumer crashed permanently: the process must exit. */
  readonly onFatal: (error: unknown) => void
  readonly settings?: Partial<ConsumerSettings>
  /** Timeout of a request; fetches and joins may have a longer one. */
  readonly requestTimeoutMs?: number
}

const REQUEST_TIMEOUT_MS = 10_000

/**
 * The bus of the engine on Kafka. Each consumer and each named producer has its own client and
 * connections. Tests replace `start`.
 */
export function createKafkaBus (options: KafkaBusOptions, start = startConsumer): Bus {
  const { onFatal, mac, log = () => {} } = options
  const settings = { ...consumerDefaults, ...options.settings }
  const producers = new Map<string, Producer>()
  const consumers = createCloseables()
  const sending = createCloseables()
  registerCodecs()
  const lastValues = createLastValues({
    build: () => client(options, { clientId: `${options.clientId}-last-value` }),
    clientId: options.clientId,
    mac,
  })
  const report = createRetryLog(log)
  const producer = (name: string): Producer => {
    const known = producers.get(name)
    if (known !== undefined) return known
    const made = createSafeProducer({
      build: () => buildProducer(options, name),
      onRejected: (error, attempt) =>
        report(error, 'Kafka produce request failed, retrying', { attempt, producer: name }),
    })
    const close = sending.add(() => {
      // The next caller with this name gets a new producer.
      producers.delete(name)
      return made.close()
    })
    const signing: Producer = {
      send: (messages, signal) =>
        made.send(mac === undefined ? messages : messages.map(mac.sign), signal),
      close,
    }
    producers.set(name, signing)
    return signing
  }
  return {
    consume: async (consume) => {
      const kafka = client(options, { clientId: `${options.clientId}-${consume.group}` })
      const { group, topics } = consume
      const consumption = start({
        kafka,
        consume,
        mac,
        settings,
        onFatal,
        onCommitFailed: error =>
          report(error, 'offset commit failed, retrying', { group, topics }),
        onRetry: error => report(error, 'Kafka consumer cannot join, retrying', { group, topics }),
      })
      return { ready: () => consumption.ready(), stop: consumers.add(() => consumption.stop()) }
    },
    producer,
    lastValue: lastValues.find,
    topicNames: () => topicNames(options),
    close: async () => {
      await lastValues.close()
      await consumers.closeAll()
      await sending.closeAll()
    },
  }
}

const LOG_INTERVAL_MS = 600_000

/** Logs access errors as errors, at most once in ten minutes each, and others as warnings. */
function createRetryLog (log: KafkaLog) {
  const isDue = createLogThrottle(LOG_INTERVAL_MS)
  return (error: unknown, event: string, details: object): void => {
    const refusal = accessErrorOf(error)
    if (refusal === undefined) log('warn', event, { error, ...details })
    else if (isDue(refusal)) log('error', refusal, { error })
  }
}

type Close = () => Promise<void>

/** The open consumers or producers; each is closed once and released then. */
function createCloseables () {
  const open = new Set<Close>()
  return {
    add: (end: Close): Close => {
      let ended: Promise<void> | undefined
      const close = () => {
        ended ??= end().finally(() => open.delete(close))
        return ended
      }
      open.add(close)
      return close
    },
    closeAll: async () => { await Promise.all([...open].map(close => close())) },
  }
}

/** Rejects after half a minute of retries; the next one discovers the brokers again. */
function buildProducer (options: KafkaBusOptions, name: string) {
  const retry = { initialRetryTime: 100, maxRetryTime: 1_000, retries: 30 }
  return createVerifiedProducer(client(options, { clientId: `${options.clientId}-${name}`, retry }))
}

/**
 * The idempotent producer of kafkajs with a check that it has sent the whole batch. kafkajs alone
 * acknowledges a batch that it has sent in part: when the batch goes to two brokers, one rejects
 * its partitions, and by the retry the other broker, which has responded before, leads them.
 */
export function createVerifiedProducer (kafka: Kafka): ProducerClient {
  const pending = new Set<string>()
  const partitionOf = Partitioners.DefaultPartitioner()
  const trackingPartitioner = (args: PartitionerArgs) => {
    const partition = partitionOf(args)
    pending.add(`${args.topic}|${partition}`)
    return partition
  }
  const producer = kafka.producer({
    idempotent: true,
    maxInFlightRequests: 1,
    allowAutoTopicCreation: false,
    createPartitioner: () => trackingPartitioner,
  })
  return {
    connect: () => producer.connect(),
    disconnect: () => producer.disconnect(),
    sendBatch: async batch => {
      pending.clear()
      const results = await producer.sendBatch(batch)
      for (const { topicName, partition } of results) pending.delete(`${topicName}|${partition}`)
      if (pending.size === 0) return results
      throw new InfrastructureError('kafkajs acknowledged a batch without sending ' +
        `${[...pending].join(', ')}; send it again`)
    },
  }
}

function client (
  { log, requestTimeoutMs = REQUEST_TIMEOUT_MS, ...connection }: KafkaBusOptions,
  more: Pick<KafkaConfig, 'clientId' | 'retry'>
): Kafka {
  return new Kafka({
    ...kafkaOptionsOf(connection),
    connectionTimeout: 3_000,
    requestTimeout: requestTimeoutMs,
    retry: { initialRetryTime: 100, maxRetryTime: 2_000, retries: 8 },
    logLevel: log === undefined ? logLevel.NOTHING : logLevel.WARN,
    logCreator: () => ({ level, namespace, log: { message, timestamp, ...details } }) => {
      log?.(level === logLevel.WARN ? 'warn' : 'error', message, { namespace, ...details })
    },
    ...more,
  })
}

const { CompressionCodecs, CompressionTypes } = kafkajs
const compress = promisify(zstdCompress)
const decompress = promisify(zstdDecompress)

/** Adds zstd to the codecs of kafkajs, which has only gzip. It cannot read Snappy and LZ4. */
export function registerCodecs (): void {
  CompressionCodecs[CompressionTypes.ZSTD] = () => ({
    compress: ({ buffer }: { readonly buffer: Buffer }) => compress(buffer),
    decompress: (buffer: Buffer) => decompress(buffer),
  })
}
