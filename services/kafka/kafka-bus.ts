import { Kafka, logLevel, type KafkaConfig } from 'kafkajs'
import type { Bus, Producer } from './bus.ts'
import type { MessageMac } from './message-mac.ts'
import { createLogThrottle } from '../platform/log-throttle.ts'
import { registerCodecs } from './codecs.ts'
import { kafkaOptionsOf, type KafkaConnection } from './connection.ts'
import { consumerDefaults, startConsumer, type ConsumerSettings } from './consumer.ts'
import { refusalOf } from './errors.ts'
import { createLastValues } from './last-value.ts'
import { createSafeProducer } from './safe-producer.ts'
import { createVerifiedProducer } from './verified-producer.ts'

export type KafkaLog = (level: 'warn' | 'error', message: string, details: object) => void

export type KafkaBusOptions = KafkaConnection & {
  readonly clientId: string
  /** Left out, messages are neither signed nor judged. */
  readonly mac?: MessageMac | undefined
  /** Told what kafkajs warns of; nothing is logged without it. */
  readonly log?: KafkaLog
  /** The process can't go on: a handler rejected, or a consumer crashed for good. Exit non-zero. */
  readonly onFatal: (error: unknown) => void
  readonly settings?: Partial<ConsumerSettings>
  /** A lost answer is noticed after this time; a fetch or a join may have a longer one. */
  readonly requestTimeoutMs?: number
}

const REQUEST_TIMEOUT_MS = 10_000

/**
 * Kafka as the engine's bus. Every consumer and every name of a producer has a client, and so
 * connections, of its own. Tests begin consumers of their own.
 */
export function createKafkaBus (options: KafkaBusOptions, begin = startConsumer): Bus {
  const { onFatal, mac, log = () => {} } = options
  const settings = { ...consumerDefaults, ...options.settings }
  const producers = new Map<string, Producer>()
  const consumers = createOpen()
  const sending = createOpen()
  registerCodecs()
  const lastValues = createLastValues({
    build: () => client(options, { clientId: `${options.clientId}-last-value` }),
    clientId: options.clientId,
    mac,
  })
  const onRetry = tellRetries(log)
  const producer = (name: string): Producer => {
    const known = producers.get(name)
    if (known !== undefined) return known
    const made = createSafeProducer({
      build: () => buildProducer(options, name),
      onRejected: (error, attempt) => {
        if (refusalOf(error) !== undefined) onRetry(error)
        else log('warn', 'Kafka refused a request', { error, attempt, name })
      },
    })
    const close = sending.add(() => {
      // Whoever asks for the name from now on gets a new one.
      producers.delete(name)
      return made.close()
    })
    const own: Producer = {
      send: (messages, signal) =>
        made.send(mac === undefined ? messages : messages.map(mac.sign), signal),
      close,
    }
    producers.set(name, own)
    return own
  }
  return {
    consume: async (consume) => {
      const kafka = client(options, { clientId: `${options.clientId}-${consume.group}` })
      const consumption = begin({ kafka, consume, mac, settings, onFatal, onRetry })
      return { ready: () => consumption.ready(), stop: consumers.add(() => consumption.stop()) }
    },
    producer,
    lastValue: lastValues.find,
    close: async () => {
      await lastValues.close()
      await consumers.closeAll()
      await sending.closeAll()
    },
  }
}

const TELL_AGAIN_MS = 600_000

/**
 * What somebody has to set right is told as an error, and once in ten minutes; what passes is told
 * each time.
 */
function tellRetries (log: KafkaLog): (error: unknown) => void {
  const isDue = createLogThrottle(TELL_AGAIN_MS)
  return error => {
    const refusal = refusalOf(error)
    if (refusal === undefined) return log('warn', 'Kafka is not reached yet', { error })
    if (isDue(refusal)) log('error', refusal, { error })
  }
}

type Close = () => Promise<void>

/** What is to be closed in the end; what was closed before is not held any longer. */
function createOpen () {
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

/** After half a minute of retries it rejects, and a new one finds the brokers afresh. */
function buildProducer (options: KafkaBusOptions, name: string) {
  const retry = { initialRetryTime: 100, maxRetryTime: 1_000, retries: 30 }
  return createVerifiedProducer(client(options, { clientId: `${options.clientId}-${name}`, retry }))
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
