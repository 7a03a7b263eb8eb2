import type { Consumer, EachBatchPayload, Kafka } from 'kafkajs'
import { withTimeout, retryForever, sleep, type Sleep } from '../platform/retry.ts'
import type { ConsumeOptions, Consumption } from './bus.ts'
import { createCommits } from './commits.ts'
import { accessErrorOf, isTransient, kafkaTypeOf } from './errors.ts'
import type { MessageMac } from './message-mac.ts'
import { createPartitionReader, type PartitionReader } from './partition-reader.ts'

export type ConsumerSettings = {
  readonly sessionTimeoutMs: number
  readonly heartbeatMs: number
  readonly rebalanceTimeoutMs: number
  /**
   * The maximum wait of a fetch without batching. Our patch of kafkajs raises it to a second after
   * an empty fetch, and limits it to 100 ms while a partition is paused, because a running fetch
   * delays a resumed partition.
   */
  readonly maxWaitMs: number
  readonly maxBytesPerPartition: number
  readonly maxBufferedBytes: number
  /** How long `stop` waits for running handlers, and then for leaving the group. */
  readonly stopTimeoutMs: number
  /** Age at which metadata of topics is refreshed, which finds new partitions. */
  readonly metadataMaxAgeMs: number
}

export const consumerDefaults: ConsumerSettings = {
  sessionTimeoutMs: 6_000,
  heartbeatMs: 2_000,
  rebalanceTimeoutMs: 10_000,
  maxWaitMs: 100,
  maxBytesPerPartition: 512 * 1024,
  maxBufferedBytes: 512 * 1024,
  stopTimeoutMs: 8_000,
  metadataMaxAgeMs: 30_000,
}

/** Delay before a failed consumer is replaced. */
const RESTART_DELAY_MS = 300

/** The delay after an access error, which lasts until an operator fixes the user or its ACLs. */
const ACCESS_ERROR_DELAY_MS = 2_000

const MISSING_TOPIC = 'UNKNOWN_TOPIC_OR_PARTITION'

type ConsumerOptions = {
  readonly kafka: Kafka
  readonly consume: ConsumeOptions
  readonly settings: ConsumerSettings
  readonly mac?: MessageMac | undefined
  readonly onFatal: (error: unknown) => void
  readonly onRetry: (error: unknown, attempt: number) => void
  /** A request with commits failed; the next one repeats them. */
  readonly onCommitFailed?: (error: unknown) => void
  /** Replaced in tests. */
  readonly sleep?: Sleep
}

/**
 * Starts a consumer in the background; it joins as soon as brokers and topics are available.
 * Handlers run outside of the fetch loop of kafkajs: so a slow partition does not stop the fetches
 * of others on the same broker, and heartbeats continue however long a handler takes.
 */
export function startConsumer (options: ConsumerOptions): Consumption {
  return new GroupConsumer(options)
}

class GroupConsumer implements Consumption {
  readonly #options: ConsumerOptions
  #consumer: Consumer
  readonly #stopping = new AbortController()
  #generation: Generation | undefined
  #heartbeatAtMs = -Infinity
  #stopped: Promise<void> | undefined

  constructor (options: ConsumerOptions) {
    this.#options = options
    this.#consumer = this.#launch()
  }

  ready (): boolean {
    const { sessionTimeoutMs } = this.#options.settings
    const isAlive = performance.now() - this.#heartbeatAtMs < sessionTimeoutMs
    return isAlive && this.#generation?.signal.aborted === false && this.#generation.isStarted()
  }

  stop (): Promise<void> {
    this.#stopped ??= this.#stop()
    return this.#stopped
  }

  #launch (afterMs = 0): Consumer {
    const consumer = this.#build()
    this.#follow(consumer)
    this.#start(consumer, afterMs).catch((error: unknown) => this.#fail(error))
    return consumer
  }

  #build (): Consumer {
    const { kafka, consume, settings } = this.#options
    const { fetchBatching } = consume
    return kafka.consumer({
      groupId: consume.group,
      sessionTimeout: settings.sessionTimeoutMs,
      heartbeatInterval: settings.heartbeatMs,
      metadataMaxAge: settings.metadataMaxAgeMs,
      rebalanceTimeout: settings.rebalanceTimeoutMs,
      maxWaitTimeInMs: fetchBatching?.maxWaitMs ?? settings.maxWaitMs,
      minBytes: fetchBatching?.bytes ?? 1,
      maxBytesPerPartition: fetchBatching?.maxPartitionBytes ?? settings.maxBytesPerPartition,
      allowAutoTopicCreation: false,
      // After the retries, kafkajs crashes and restarts, and looks up the coordinator again.
      retry: {
        retries: 8,
        restartOnFailure: async (error) => !this.#stopping.signal.aborted && !this.#isFinal(error),
      },
    })
  }

  /** kafkajs calls these listeners synchronously. */
  #follow (consumer: Consumer): void {
    const { events } = consumer
    const onHeartbeat = () => { this.#heartbeatAtMs = performance.now() }
    consumer.on(events.GROUP_JOIN, () => {
      onHeartbeat()
      this.#join()
    })
    consumer.on(events.HEARTBEAT, onHeartbeat)
    consumer.on(events.REBALANCING, () => this.#generation?.abort('The group rebalances.'))
    consumer.on(events.STOP, () => this.#generation?.abort('The consumer stopped.'))
    consumer.on(events.CRASH, ({ payload }) => {
      this.#generation?.abort('The consumer crashed.')
      if (this.#stopping.signal.aborted) return
      const isRefused = accessErrorOf(payload.error) !== undefined
      if (isRefused) this.#options.onRetry(payload.error, 1)
      if (payload.restart) return
      // kafkajs disconnects after one lost response of a coordinator or one access error.
      if (isRefused) this.#consumer = this.#launch(ACCESS_ERROR_DELAY_MS)
      else if (isTransient(payload.error) && !this.#isFinal(payload.error)) {
        this.#consumer = this.#launch(RESTART_DELAY_MS)
      } else this.#fail(payload.error)
    })
  }

  #join (): void {
    this.#generation?.abort('The group has a new generation.')
    const formerEnded = this.#generation?.ended() ?? Promise.resolve()
    const { consume, mac, onCommitFailed, settings } = this.#options
    // Of many partitions, each buffers no more than a fetch returns.
    const maxBufferedBytes = Math.min(
      settings.maxBufferedBytes, consume.fetchBatching?.maxPartitionBytes ?? Infinity)
    const onFatal = (error: unknown) => this.#fail(error)
    this.#generation = startGeneration(
      { consume, mac, maxBufferedBytes, onFatal, onCommitFailed }, formerEnded)
  }

  async #start (consumer: Consumer, afterMs: number): Promise<void> {
    const { consume, onRetry, sleep: pause = sleep } = this.#options
    const { signal } = this.#stopping
    if (afterMs > 0) await pause(afterMs, signal).catch(() => {})
    const join = async () => {
      await consumer.connect()
      await consumer.subscribe({ topics: [...consume.topics], fromBeginning: true })
    }
    const when = (error: unknown) => !this.#isFinal(error)
    try {
      await retryForever(join, { signal, onRetry, when, maxMs: 2_000 })
    } catch (error) {
      return this.#fail(error)
    }
    await consumer.run({
      autoCommit: false,
      eachBatchAutoResolve: false,
      eachBatch: async (payload: EachBatchPayload) => { this.#generation?.enqueue(payload) },
    })
  }

  /** A missing topic, if the caller can start a consumer without it. */
  #isFinal (error: unknown): boolean {
    return this.#options.consume.onFailed !== undefined && kafkaTypeOf(error) === MISSING_TOPIC
  }

  #fail (error: unknown): void {
    if (this.#stopping.signal.aborted) return
    this.#generation?.abort('The consumer failed.')
    const { consume, onFatal } = this.#options
    const report = consume.onFailed ?? onFatal
    report(error)
  }

  /** Aborts the handlers and waits for them while heartbeats continue; then leaves the group. */
  async #stop (): Promise<void> {
    this.#stopping.abort()
    this.#generation?.abort('The consumer stops.')
    const { stopTimeoutMs } = this.#options.settings
    await withTimeout(this.#generation?.ended(), stopTimeoutMs)
    await withTimeout(this.#consumer.disconnect().catch(() => {}), stopTimeoutMs)
  }
}

type GenerationOptions = Pick<ConsumerOptions, 'onCommitFailed'> & {
  readonly consume: ConsumeOptions
  readonly mac?: MessageMac | undefined
  /** Bytes fetched ahead of the handler of a partition; above, the partition is paused. */
  readonly maxBufferedBytes: number
  /** Called when a handler rejects while the partition is assigned: a redelivery cannot help. */
  readonly onFatal: (error: unknown) => void
}

/** One generation of a consumer group, from one join to the next, with its partition readers. */
type Generation = {
  readonly signal: AbortSignal
  readonly abort: (why: string) => void
  /** True once the previous handlers have returned and `onAssigned` was called. */
  readonly isStarted: () => boolean
  readonly enqueue: (payload: EachBatchPayload) => void
  /** Resolves when no handler of this generation is running and its last commit has ended. */
  readonly ended: () => Promise<void>
}

/**
 * Starts a generation after the handlers of the previous one have returned: so they cannot hold a
 * message again after `onAssigned`. Nothing is delivered before `onAssigned`.
 */
export function startGeneration (
  { consume, mac, maxBufferedBytes, onFatal, onCommitFailed }: GenerationOptions,
  formerEnded: Promise<void>
): Generation {
  const controller = new AbortController()
  const commits = createCommits({ generation: controller, onFailed: onCommitFailed })
  const readers = new Map<string, PartitionReader>()
  let assigned = false
  const fail = (error: unknown) => {
    if (controller.signal.aborted) return
    controller.abort(error)
    onFatal(error)
  }
  const start = (async () => {
    await formerEnded
    if (controller.signal.aborted) return
    consume.onAssigned()
    assigned = true
  })().catch(fail)
  const readerOf = (payload: EachBatchPayload) => {
    const { topic, partition } = payload.batch
    const key = `${topic}|${partition}`
    const reader = readers.get(key) ?? createPartitionReader({
      topic,
      partition,
      start,
      maxBufferedBytes,
      fail,
      commits,
      signal: controller.signal,
      mac,
      onDelivery: consume.onDelivery,
      onUndecodable: consume.onUndecodable,
    })
    readers.set(key, reader)
    return reader
  }
  return {
    signal: controller.signal,
    abort: (why) => controller.abort(new Error(why)),
    isStarted: () => assigned,
    enqueue: (payload) => { if (!controller.signal.aborted) readerOf(payload).enqueue(payload) },
    ended: async () => {
      await start
      await Promise.all([...readers.values()].map((reader) => reader.ended()))
      for (const reader of readers.values()) reader.resume()
      await commits.ended()
    },
  }
}
