import { type KafkaConfig, logLevel } from 'kafkajs'
import { topicNames } from './admin.ts'
import type { Bus, Producer } from './bus.ts'
import { createAdminClient, createKafka, type KafkaClient } from './client.ts'
import { describeAccessError, type KafkaConnection } from './connection.ts'
import { consumerDefaults, type ConsumerSettings, startConsumer } from './consumer.ts'
import type { MessageMac } from '../crypto/mac.ts'
import { PartitionCounts } from '../platform/topics.ts'
import { createVerifiedProducer, type Partitioning, SafeProducer } from './safe-producer.ts'
import { createTopicReader, type TopicReader } from './topic-reader.ts'
import { markFailed, storeText } from '../platform/errors.ts'
import { batchReads } from '../platform/batch-writes.ts'
import { createLogThrottle } from '../platform/log.ts'
import { startRepeating, withTimeout } from '../platform/retry.ts'

type KafkaLog = (
  level: 'debug' | 'info' | 'warn' | 'error', message: string,
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
/** How long a close waits for the watches of partitions. */
const WATCH_STOP_MS = 1_000
/** New partitions are used after so many times the age at which all consumers have found them. */
const AGES_UNTIL_USE = 3

/**
 * The bus of the engine on Kafka. Each consumer and each named producer has its own client and
 * connections. Tests replace `start`.
 */
export function createKafkaBus (options: KafkaBusOptions, start = startConsumer): Bus {
  const { onFatal, mac, log = () => {} } = options
  const settings = { ...consumerDefaults, ...options.settings }
  const { metadataMaxAgeMs } = settings
  const partitions = new PartitionCounts({ delayMs: AGES_UNTIL_USE * metadataMaxAgeMs })
  const consumers = createCloseables()
  const clientId = `${options.clientId}.last-value`
  const lastValues = new LastValues(
    createTopicReader({ ...options, clientId }, client(options, { clientId })))
  const report = createRetryLog(log)
  const producers = createProducers(
    options, { partitions, metadataMaxAge: metadataMaxAgeMs }, report)
  const watches: Close[] = []
  const watchPartitions = (topics: readonly string[]) => {
    const admin = createAdminClient(options, `${options.clientId}-partitions`)
    const watch = startRepeating(metadataMaxAgeMs, async () => {
      const metadata = await admin.use(client => client.fetchTopicMetadata({ topics: [...topics] }))
      for (const topic of metadata.topics) partitions.update(topic.name, topic.partitions.length)
    }, error => report(error, 'partitions of topics not read, retrying', { topics }))
    // A broker that does not answer must not delay the end of the process.
    watches.push(() => withTimeout(Promise.all([watch.stop(), admin.close()]), WATCH_STOP_MS))
    return (topic: string) => partitions.of(topic)
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
    producer: producers.of,
    lastValue: (...of) => lastValues.find(...of),
    topicNames: () => topicNames(options).catch((error: unknown) => {
      markFailed(error, storeText('KAFKA_BROKERS', `kafka://${options.brokers.join()}`))
      throw error
    }),
    watchPartitions,
    close: async () => {
      await Promise.all([lastValues.close(), ...watches.map(stop => stop())])
      await consumers.closeAll()
      await producers.closeAll()
    },
  }
}

/** The producers by name; each is built when it is first wanted. */
function createProducers (
  options: KafkaBusOptions, partitioning: Partitioning, report: ReturnType<typeof createRetryLog>
) {
  const { mac } = options
  const producers = new Map<string, Producer>()
  const open = createCloseables()
  const create = (name: string): Producer => {
    const made = new SafeProducer({
      // It rejects after half a minute of retries; the next one discovers the brokers again.
      build: () => createVerifiedProducer(client(options, {
        clientId: `${options.clientId}-${name}`,
        retry: { initialRetryTime: 100, maxRetryTime: 1_000, retries: 30 },
      }), partitioning),
      onRejected: (error, attempt) =>
        report(error, 'Kafka produce request failed, retrying', { attempt, producer: name }),
    })
    const close = open.add(() => {
      // The next caller with this name gets a new producer.
      producers.delete(name)
      return made.close()
    })
    const producer: Producer = {
      send: (messages, signal) =>
        made.send(mac === undefined ? messages : messages.map(mac.sign), signal),
      close,
    }
    producers.set(name, producer)
    return producer
  }
  return { of: (name: string) => producers.get(name) ?? create(name), closeAll: open.closeAll }
}

const LOG_INTERVAL_MS = 600_000

/** Logs access errors as errors, at most once in ten minutes each, and others as warnings. */
function createRetryLog (log: KafkaLog) {
  const isDue = createLogThrottle(LOG_INTERVAL_MS)
  return (error: unknown, event: string, details: object): void => {
    const refusal = describeAccessError(error)
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

function client (
  { log, requestTimeoutMs = REQUEST_TIMEOUT_MS, ...connection }: KafkaBusOptions,
  more: Pick<KafkaConfig, 'clientId' | 'retry'>
): KafkaClient {
  return createKafka(connection, {
    connectionTimeout: 3_000,
    requestTimeout: requestTimeoutMs,
    retry: { initialRetryTime: 100, maxRetryTime: 2_000, retries: 8 },
    logLevel: log === undefined ? logLevel.NOTHING : logLevel.WARN,
    logCreator: () => ({ namespace, log: { message, timestamp, ...details } }) => {
      log?.(clientLogLevel(`${message} ${details['error']}`), message, { namespace, ...details })
    },
    ...more,
  })
}

/**
 * What each start of a producer, and each restart of a broker or of another member of a group says:
 * kafkajs goes on by itself.
 */
const ROUTINE =
  /rebalancing|Limiting retries|not the correct coordinator|coordinator is (loading|not available)/

/**
 * The level of a warning or an error of kafkajs, by its text. kafkajs retries what it reports, so
 * none is an error: the bus reports missing rights, and what ends the process.
 */
function clientLogLevel (text: string): 'debug' | 'info' | 'warn' {
  if (text.includes('re-joining')) return 'info'
  return ROUTINE.test(text) ? 'debug' : 'warn'
}

/**
 * Searches topics for the last values of keys. One search of a topic runs at a time and covers all
 * requested keys: after a loss of data, many keys are requested at once.
 */
class LastValues {
  readonly #reader: TopicReader
  readonly #closing = new AbortController()
  readonly #readings = new Set<Promise<unknown>>()
  readonly #searches = new Map<string, (key: string) => Promise<Buffer | undefined>>()

  constructor (reader: TopicReader) {
    this.#reader = reader
  }

  /**
   * The value of the last message with this key; undefined when there is none, or there was a
   * tombstone. Forged messages are ignored.
   * @throws InfrastructureError when the topic cannot be read to its end.
   */
  async find (topic: string, key: string): Promise<Buffer | undefined> {
    const search = this.#searches.get(topic) ??
      batchReads(keys => this.#search(topic, keys), Infinity)
    this.#searches.set(topic, search)
    return await search(key)
  }

  /** Cancels all searches. */
  async close (): Promise<void> {
    this.#closing.abort(new Error('the search for a value was canceled: the process stops'))
    await Promise.allSettled(this.#readings)
  }

  async #search (topic: string, keys: readonly string[]) {
    const last = new Map<string, Buffer | null>()
    const reading = this.#reader.read(topic, messages => {
      for (const { key, value } of messages) {
        const name = String(key)
        if (last.get(name) !== null) last.set(name, value)
      }
    }, { keys: new Set(keys), signal: this.#closing.signal })
    this.#readings.add(reading)
    // A failure is that of every key: a search of each alone would fail too.
    await reading.catch(() => {}).finally(() => this.#readings.delete(reading))
    return keys.map(key => reading.then(() => last.get(key) ?? undefined))
  }
}
