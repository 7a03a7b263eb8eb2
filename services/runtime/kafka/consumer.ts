import type { EachBatchPayload, KafkaMessage, Offsets } from 'kafkajs'
import { backoffMs, retryForever, sleep, type Sleep, withTimeout } from '../platform/retry.ts'
import {
  type ConsumeOptions, type Consumption, type FetchedBatch, measureMessage, type MessagePosition,
  partitionName, type RawMessage, type TopicPartition,
} from './bus.ts'
import type { KafkaClient, KafkaConsumer } from './client.ts'
import { describeAccessError, isTransient, kafkaErrorType } from './connection.ts'
import type { MessageMac } from '../crypto/mac.ts'

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
  readonly kafka: KafkaClient
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
  #consumer: KafkaConsumer
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

  #launch (afterMs = 0): KafkaConsumer {
    const consumer = this.#build()
    this.#follow(consumer)
    this.#start(consumer, afterMs).catch((error: unknown) => this.#fail(error))
    return consumer
  }

  #build (): KafkaConsumer {
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
  #follow (consumer: KafkaConsumer): void {
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
      const isRefused = describeAccessError(payload.error) !== undefined
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
    // The client leaves the group as soon as it has joined it.
    if (this.#stopping.signal.aborted) return
    this.#generation?.abort('The group has a new generation.')
    const formerEnded = this.#generation?.ended() ?? Promise.resolve()
    const { consume, mac, onCommitFailed, settings } = this.#options
    // Of many partitions, each buffers no more than a fetch returns.
    const maxBufferedBytes = Math.min(
      settings.maxBufferedBytes, consume.fetchBatching?.maxPartitionBytes ?? Infinity)
    const onFatal = (error: unknown) => this.#fail(error)
    this.#generation = new Generation(
      { consume, mac, maxBufferedBytes, onFatal, onCommitFailed }, formerEnded)
  }

  async #start (consumer: KafkaConsumer, afterMs: number): Promise<void> {
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
      if (!signal.aborted) return this.#fail(error)
    }
    // kafkajs connects although it was disconnected meanwhile, and nobody could end the member.
    if (signal.aborted) return await consumer.disconnect()
    await consumer.run({
      autoCommit: false,
      eachBatchAutoResolve: false,
      eachBatch: async (payload: EachBatchPayload) => { this.#generation?.enqueue(payload) },
    })
  }

  /** A missing topic, if the caller can start a consumer without it. */
  #isFinal (error: unknown): boolean {
    return this.#options.consume.onFailed !== undefined && kafkaErrorType(error) === MISSING_TOPIC
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

type GenerationOptions = {
  readonly consume: ConsumeOptions
  readonly mac: MessageMac | undefined
  /** Memory of what is fetched ahead of the handler of a partition; above, it is paused. */
  readonly maxBufferedBytes: number
  /** Called when a handler rejects while the partition is assigned: a redelivery cannot help. */
  readonly onFatal: (error: unknown) => void
  readonly onCommitFailed: ((error: unknown) => void) | undefined
}

/**
 * One generation of a consumer group, from one join to the next. It starts after the handlers of
 * the previous one have returned: so they cannot hold a message again after `onAssigned`. Nothing
 * is delivered before `onAssigned`.
 */
class Generation {
  readonly options: GenerationOptions
  readonly commits: Commits
  /** Resolves when the generation has started, or has ended before. */
  readonly start: Promise<void>
  readonly #controller = new AbortController()
  readonly #partitions = new Map<string, Partition>()
  #isStarted = false

  constructor (options: GenerationOptions, formerEnded: Promise<void>) {
    this.options = options
    this.commits = new Commits(this.#controller, options.onCommitFailed)
    this.start = this.#start(formerEnded).catch((error: unknown) => this.fail(error))
  }

  get signal (): AbortSignal {
    return this.#controller.signal
  }

  abort (why: string): void {
    this.#controller.abort(new Error(why))
  }

  fail (error: unknown): void {
    if (this.signal.aborted) return
    this.#controller.abort(error)
    this.options.onFatal(error)
  }

  /** True once the previous handlers have returned and `onAssigned` was called. */
  isStarted (): boolean {
    return this.#isStarted
  }

  enqueue (payload: EachBatchPayload): void {
    if (this.signal.aborted) return
    const { topic, partition } = payload.batch
    const name = partitionName(payload.batch)
    const reader = this.#partitions.get(name) ?? new Partition({ topic, partition }, this)
    this.#partitions.set(name, reader)
    reader.enqueue(payload)
  }

  /** Resolves when no handler of this generation is running and its last commit has ended. */
  async ended (): Promise<void> {
    await this.start
    await Promise.all([...this.#partitions.values()].map(partition => partition.ended()))
    // kafkajs would keep a pause in the next generation.
    for (const partition of this.#partitions.values()) partition.resume()
    await this.commits.ended()
  }

  async #start (formerEnded: Promise<void>): Promise<void> {
    await formerEnded
    if (this.signal.aborted) return
    this.options.consume.onAssigned()
    this.#isStarted = true
  }
}

/** kafkajs does not declare these fields. Our patch adds `error`; the batch is empty then. */
type Fetched = EachBatchPayload['batch'] & {
  readonly fetchedOffset: string, readonly error?: unknown,
}

/** Delivers the messages of one partition to `onDelivery`, one delivery at a time. */
class Partition {
  readonly #place: TopicPartition
  readonly #generation: Generation
  #waiting: RawMessage[] = []
  #waitingBytes = 0
  /** The expected offset of the next fetch, and that of the last unexpected one. */
  #position: bigint | undefined
  #unexpected: bigint | undefined
  #resume: (() => void) | undefined
  /** The pause before a redelivery. */
  #pausing: Promise<void> | undefined
  #latest: EachBatchPayload | undefined
  #running: Promise<void> | undefined

  constructor (place: TopicPartition, generation: Generation) {
    this.#place = place
    this.#generation = generation
  }

  /** Buffers a fetched batch and returns at once, so that fetches and heartbeats continue. */
  enqueue (payload: EachBatchPayload): void {
    const batch = payload.batch as Fetched
    if (this.#pausing !== undefined || !this.#isExpected(BigInt(batch.fetchedOffset))) return
    this.#latest = payload
    if (batch.error !== undefined) return this.#reject(batch.error)
    this.#position = BigInt(batch.lastOffset()) + 1n
    payload.resolveOffset(batch.lastOffset())
    for (const message of batch.messages) {
      const raw = rawMessage(batch, message, this.#generation.options.mac)
      this.#waiting.push(raw)
      this.#waitingBytes += measureMessage(raw)
    }
    if (this.#waitingBytes >= this.#generation.options.maxBufferedBytes) this.#pause()
    this.#running ??= this.#run()
  }

  async ended (): Promise<void> {
    await this.#running
  }

  /** Ends a pause. */
  resume (): void {
    this.#resume?.()
    this.#resume = undefined
  }

  /**
   * A fetch that was in flight when the position moved (a new generation or a redelivery) is stale;
   * accepting it would skip messages. There is at most one such fetch, so an unknown position is
   * accepted when two fetches in a row have it. A dropped batch is fetched again at once.
   */
  #isExpected (fetched: bigint): boolean {
    const expected = fetched === this.#position || fetched === this.#unexpected
    this.#unexpected = expected ? undefined : fetched
    return expected
  }

  /** Pauses each time: a reader of the previous generation may just have resumed the partition. */
  #pause (): void {
    this.#resume = this.#latest?.pause()
  }

  async #run (): Promise<void> {
    const { start, signal } = this.#generation
    await start
    try {
      while (this.#waiting.length > 0 && !signal.aborted) await this.#deliver(signal)
    } catch (error) {
      this.#generation.fail(error)
    }
    this.#running = undefined
  }

  async #deliver (signal: AbortSignal): Promise<void> {
    const { commits, options: { consume } } = this.#generation
    const place = this.#place
    await consume.onDelivery({
      ...place,
      messages: this.#takeWaiting(),
      more: () => this.#takeWaiting(),
      signal,
      commit: nextOffset => commits.add(place, nextOffset,
        async offsets => { await this.#latest?.commitOffsetsIfNecessary(offsets) }),
      redeliver: (offset, after) => this.#rewind(offset, after),
    } satisfies FetchedBatch)
  }

  /** The messages before the batch are still delivered. */
  #reject (error: unknown): void {
    const { onUndecodable } = this.#generation.options.consume
    if (onUndecodable === undefined) return this.#generation.fail(error)
    onUndecodable(error, { ...this.#place, retry: after => this.#pauseUntil(after) })
  }

  #takeWaiting (): readonly RawMessage[] {
    const messages = this.#waiting
    this.#waiting = []
    this.#waitingBytes = 0
    if (this.#pausing === undefined) this.resume()
    return messages
  }

  /** Drops buffered messages, seeks, and pauses the partition until the redelivery. */
  #rewind (fromOffset: bigint, after: number | Promise<void>): void {
    const { signal } = this.#generation
    if (signal.aborted) return
    this.#waiting = []
    this.#waitingBytes = 0
    this.#position = fromOffset
    this.#latest?.resolveOffset((fromOffset - 1n).toString())
    this.#pauseUntil(typeof after === 'number' ? sleep(after, signal) : after)
  }

  #pauseUntil (after: Promise<void>): void {
    this.#pause()
    const end = () => {
      if (this.#pausing !== after) return
      this.#pausing = undefined
      this.resume()
    }
    this.#pausing = after
    after.then(end, end)
  }
}

/** Converts a message of kafkajs; verifies its signature if there is a MAC. */
export function rawMessage (
  { topic, partition }: Pick<Fetched, 'topic' | 'partition'>,
  { offset, key, value, headers, timestamp }: KafkaMessage,
  mac?: MessageMac
): RawMessage {
  const message = {
    topic,
    partition,
    offset: BigInt(offset),
    key: key ?? Buffer.alloc(0),
    value,
    headers: Object.fromEntries(
      Object.entries(headers ?? {}).map(([name, header]) => [name, String(header)])),
    timestampMs: Number(timestamp),
  }
  return mac?.isAuthentic(message) === false ? { ...message, forged: true } : message
}

type SendCommits = (offsets: Offsets) => Promise<void>

/** After a crash at most the messages of this time are delivered again, besides those in work. */
const COMMIT_INTERVAL_MS = 100

/**
 * Errors of a commit which mean that the generation has ended. NOT_COORDINATOR does not: the
 * heartbeats find out whether the coordinator has moved or only restarted.
 */
const GENERATION_ENDED = ['REBALANCE_IN_PROGRESS', 'ILLEGAL_GENERATION', 'UNKNOWN_MEMBER_ID']

/**
 * Commits the offsets of a generation: those of all partitions in one request, and one request per
 * interval, because a request for each batch would cost more than the batch of a small job. A
 * failed request is repeated with the newest offsets. What is left at the end of the generation is
 * sent at once: the coordinator accepts it until the member joins again.
 */
class Commits {
  /** Aborted when the generation ends; also by a commit that shows that it has. */
  readonly #generation: AbortController
  readonly #onFailed: ((error: unknown) => void) | undefined
  readonly #pending = new Map<string, MessagePosition>()
  #send: SendCommits = async () => {}
  #running: Promise<void> | undefined

  constructor (generation: AbortController, onFailed: ((error: unknown) => void) | undefined) {
    this.#generation = generation
    this.#onFailed = onFailed
  }

  /** Commits the next offset to read of a partition, with the next request. */
  add (place: TopicPartition, offset: bigint, send: SendCommits): void {
    if (this.#generation.signal.aborted) return
    this.#send = send
    this.#pending.set(partitionName(place), { ...place, offset })
    this.#running ??= this.#run()
  }

  /** Resolves after the last request of an ended generation. */
  async ended (): Promise<void> {
    await this.#running
  }

  async #run (): Promise<void> {
    const { signal } = this.#generation
    for (let failures = 0; this.#pending.size > 0;) {
      const waitMs = failures === 0 ? COMMIT_INTERVAL_MS : backoffMs(failures, { maxMs: 1_000 })
      await sleep(waitMs, signal).catch(() => {})
      try {
        await this.#request()
        failures = 0
      } catch (error) {
        failures++
        this.#onFailed?.(error)
      }
    }
    this.#running = undefined
  }

  async #request (): Promise<void> {
    const taken = [...this.#pending]
    this.#pending.clear()
    const byTopic = Map.groupBy(taken.map(([, commit]) => commit), ({ topic }) => topic)
    try {
      await this.#send({
        topics: [...byTopic].map(([topic, commits]) => ({
          topic,
          partitions: commits.map(({ partition, offset }) =>
            ({ partition, offset: String(offset) })),
        })),
      })
    } catch (error) {
      if (GENERATION_ENDED.includes(kafkaErrorType(error))) this.#generation.abort(error)
      if (this.#generation.signal.aborted) return
      for (const [key, commit] of taken) {
        if (!this.#pending.has(key)) this.#pending.set(key, commit)
      }
      throw error
    }
  }
}
