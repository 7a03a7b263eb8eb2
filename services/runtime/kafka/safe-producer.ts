import {
  Partitioners, type Message, type PartitionerArgs, type TopicMessages,
} from 'kafkajs'
import type { OutgoingMessage, Producer } from './bus.ts'
import type { KafkaClient, KafkaProducer } from './client.ts'
import { InfrastructureError } from '../platform/errors.ts'
import { backoffMs, sleep, withTimeout } from '../platform/retry.ts'
import { kafkaErrorType } from './connection.ts'
import { type PartitionCounts, partitionsForJob } from '../platform/topics.ts'

export type SafeProducerOptions = {
  /** The client; a new one is built after every rejected send. */
  readonly build: () => KafkaProducer
  /** Maximum size of the queue; further sends wait. */
  readonly queueBytes?: number
  /** Maximum size of a request with the messages of several sends. */
  readonly batchBytes?: number
  /** How long `close` waits for acknowledgements before it rejects the remaining sends. */
  readonly closeTimeoutMs?: number
  /** Called for every rejected request before its retry. */
  readonly onRejected?: (error: unknown, attempt: number) => void
}

/** The message is too large or has no key. Not retriable. */
export class UnsendableError extends Error {
  override readonly name = 'UnsendableError'
}

type Call = {
  unacknowledged: number, settled: boolean, resolve: () => void, reject: (error: unknown) => void,
}
type Entry = { readonly message: OutgoingMessage, readonly bytes: number, readonly call: Call }

/** The default limit of Kafka is 1,048,588 bytes per batch. */
const MAX_MESSAGE_BYTES = 1_000_000
/** An upper bound for length, deltas of offset and timestamp, and header count of a record. */
const RECORD_OVERHEAD_BYTES = 64
const HEADER_OVERHEAD_BYTES = 10
/** Below the request timeout of the client, so that a timeout of the replicas is reported. */
const REPLICA_TIMEOUT_MS = 8_000
const TOO_LARGE = ['MESSAGE_TOO_LARGE', 'RECORD_LIST_TOO_LARGE']

/**
 * A producer that never loses an acknowledged message. The idempotent producer of kafkajs loses
 * messages when two requests overlap, when a message has no key, or when it is used after a
 * rejection. So this one has one request in flight, requires a key, and discards the client after a
 * rejection. Messages of one partition arrive at least once, in the order of the sends.
 */
export class SafeProducer implements Producer {
  readonly #options: Required<SafeProducerOptions>
  readonly #closing = new AbortController()
  #client: KafkaProducer | undefined
  #queue: Entry[] = []
  #inFlight: readonly Entry[] = []
  #admittedBytes = 0
  #admission: Promise<void> = Promise.resolve()
  #onSpaceFreed: () => void = () => {}
  #draining: Promise<void> | undefined
  #closed: Promise<void> | undefined
  /** Number of next messages to send one per request, because their batch was too large. */
  #single = 0

  constructor (options: SafeProducerOptions) {
    this.#options = {
      queueBytes: 16 * 1024 * 1024,
      batchBytes: 512 * 1024,
      closeTimeoutMs: 10_000,
      onRejected: () => {},
      ...options,
    }
  }

  async send (messages: readonly OutgoingMessage[], signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted()
    if (this.#closed !== undefined) throw new Error('the producer is closed')
    const sizes = messages.map((message) => this.#checkedBytes(message))
    const bytes = sizes.reduce((sum, size) => sum + size, 0)
    if (messages.length === 0) return
    await this.#admit(bytes)
    signal?.throwIfAborted()
    this.#closing.signal.throwIfAborted()
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const call: Call = { unacknowledged: messages.length, settled: false, resolve, reject }
    const onAbort = () => { this.#reject(call, signal?.reason) }
    signal?.addEventListener('abort', onAbort, { once: true })
    this.#admittedBytes += bytes
    for (const [index, message] of messages.entries()) {
      this.#queue.push({ message, bytes: sizes[index] ?? 0, call })
    }
    this.#draining ??= this.#drain()
    await promise.finally(() => signal?.removeEventListener('abort', onAbort))
  }

  /** Waits for pending sends, then disconnects; rejects sends that are still pending. */
  close (): Promise<void> {
    this.#closed ??= this.#close()
    return this.#closed
  }

  #checkedBytes ({ topic, key, value, headers }: OutgoingMessage): number {
    if (key === '') throw new UnsendableError(`a message to ${topic} has no key: set one`)
    const bytes = Object.entries(headers).reduce(
      (sum, pair) => sum + Buffer.byteLength(pair.join('')) + HEADER_OVERHEAD_BYTES,
      Buffer.byteLength(key) + (value?.length ?? 0) + RECORD_OVERHEAD_BYTES)
    if (bytes <= MAX_MESSAGE_BYTES) return bytes
    throw tooLarge(topic, bytes, `the maximum is ${MAX_MESSAGE_BYTES}`)
  }

  /** Admits sends in order. A send into an empty queue is always admitted, whatever its size. */
  #admit (bytes: number): Promise<void> {
    this.#admission = this.#admission.then(async () => {
      const isFull = () =>
        this.#admittedBytes > 0 && this.#admittedBytes + bytes > this.#options.queueBytes
      while (isFull() && !this.#closing.signal.aborted) {
        await new Promise<void>((resolve) => { this.#onSpaceFreed = resolve })
      }
    })
    return this.#admission
  }

  /** Rejects a send; its messages that are still in the queue are never sent. */
  #reject (call: Call, error: unknown): void {
    call.settled = true
    const others = this.#queue.filter((entry) => entry.call !== call)
    this.#release(this.#queue.filter((entry) => entry.call === call))
    this.#queue = others
    call.reject(error)
  }

  #release (entries: readonly Entry[]): void {
    for (const { bytes } of entries) this.#admittedBytes -= bytes
    this.#onSpaceFreed()
  }

  async #drain (): Promise<void> {
    while (this.#queue.length > 0) {
      const batch = this.#take()
      this.#inFlight = batch
      await this.#deliver(batch)
    }
    this.#inFlight = []
    this.#draining = undefined
  }

  #take (): Entry[] {
    let count = 0
    for (let bytes = 0; count < this.#queue.length; count++) {
      bytes += this.#queue[count]?.bytes ?? 0
      if (count > 0 && (bytes > this.#options.batchBytes || this.#single > 0)) break
    }
    this.#single = Math.max(0, this.#single - 1)
    return this.#queue.splice(0, count)
  }

  /** Retries the same request until it is acknowledged or all of its sends are settled. */
  async #deliver (batch: Entry[]): Promise<void> {
    for (let attempt = 1; batch.some(({ call }) => !call.settled); attempt++) {
      try {
        await this.#request(batch)
        for (const { call } of batch) if (--call.unacknowledged === 0) call.resolve()
        break
      } catch (error) {
        this.#discardClient()
        if (TOO_LARGE.includes(kafkaErrorType(error))) return this.#splitBatch(batch)
        this.#options.onRejected(error, attempt)
      }
      await sleep(backoffMs(attempt, { maxMs: 2_000 }), this.#closing.signal).catch(() => {})
    }
    this.#release(batch)
  }

  async #request (batch: readonly Entry[]): Promise<void> {
    if (this.#client === undefined) {
      this.#client = this.#options.build()
      await this.#client.connect()
    }
    const topicMessages = byTopic(batch.filter(({ call }) => !call.settled))
    await this.#client.sendBatch({ acks: -1, timeout: REPLICA_TIMEOUT_MS, topicMessages })
  }

  /** The limit of the broker is lower: sends the messages one by one, and rejects one too large. */
  #splitBatch (batch: Entry[]): void {
    const [first] = batch
    if (batch.length > 1 || first === undefined) {
      this.#single = batch.length
      this.#queue.unshift(...batch)
      return
    }
    this.#release(batch)
    const limit = 'more than the broker accepts (max.message.bytes)'
    this.#reject(first.call, tooLarge(first.message.topic, first.bytes, limit))
  }

  #discardClient (): void {
    const client = this.#client
    this.#client = undefined
    client?.disconnect().catch(() => {})
  }

  async #close (): Promise<void> {
    await withTimeout(this.#admission.then(() => this.#draining), this.#options.closeTimeoutMs)
    const pending = new Set([...this.#inFlight, ...this.#queue].map(({ call }) => call))
    const reason = new Error('the producer closed before the broker acknowledged the messages')
    for (const call of pending) this.#reject(call, reason)
    this.#closing.abort(reason)
    this.#onSpaceFreed()
    await this.#client?.disconnect().catch(() => {})
  }
}

function byTopic (batch: readonly Entry[]): TopicMessages[] {
  const topics = new Map<string, Message[]>()
  for (const { message: { topic, key, value, headers, partition } } of batch) {
    const messages = topics.get(topic) ?? []
    messages.push({
      key, value, headers: { ...headers }, ...partition !== undefined && { partition },
    })
    topics.set(topic, messages)
  }
  return [...topics].map(([topic, messages]) => ({ topic, messages }))
}

function tooLarge (topic: string, bytes: number, limit: string): UnsendableError {
  return new UnsendableError(`message to ${topic} has ${bytes} bytes, ${limit}`)
}

/** The partitions to use, and the age in milliseconds at which the client refreshes them. */
export type Partitioning = { readonly partitions: PartitionCounts, readonly metadataMaxAge: number }

/**
 * The idempotent producer of kafkajs with a check that it has sent the whole batch. kafkajs alone
 * acknowledges a batch that it has sent in part: when the batch goes to two brokers, one rejects
 * its partitions, and by the retry the other broker, which has responded before, leads them.
 */
export function createVerifiedProducer (
  kafka: KafkaClient, { partitions, metadataMaxAge }: Partitioning
): KafkaProducer {
  const pending = new Set<string>()
  const choose = Partitioners.DefaultPartitioner()
  const trackingPartitioner = (args: PartitionerArgs) => {
    const { topic, message, partitionMetadata } = args
    partitions.update(topic, partitionMetadata.length)
    const count = partitionsForJob(topic, message.headers) ?? partitions.of(topic)
    // The partitioner of kafkajs counts partitions and does not look at them, as keys are required.
    const partition = choose({ ...args, partitionMetadata: partitionMetadata.slice(0, count) })
    pending.add(`${topic}|${partition}`)
    return partition
  }
  const producer = kafka.producer({
    idempotent: true,
    metadataMaxAge,
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
