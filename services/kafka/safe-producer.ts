import type { Message, Producer as KafkaProducer, TopicMessages } from 'kafkajs'
import type { OutgoingMessage, Producer } from './bus.ts'
import { withTimeout, backoffMs, sleep } from '../platform/retry.ts'
import { kafkaTypeOf } from './errors.ts'

/** What the producer needs of kafkajs; a new one is built after every rejected send. */
export type ProducerClient = Pick<KafkaProducer, 'connect' | 'sendBatch' | 'disconnect'>

export type SafeProducerOptions = {
  readonly build: () => ProducerClient
  /** Messages admitted at a time, in bytes; a send beyond waits. */
  readonly queueBytes?: number
  /** Messages of waiting sends are joined to one request up to so many bytes. */
  readonly batchBytes?: number
  /** A bigger message is an error at once; Kafka's own default limit is 1,048,588 bytes a batch. */
  readonly messageBytes?: number
  /** How long `close` waits for acknowledgements before it rejects what is left. */
  readonly closeWithinMs?: number
  /** Told of every rejected request before it is tried again. */
  readonly onRejected?: (error: unknown, attempt: number) => void
}

/** The message can never be sent as it is: it is too large, or it has no key. Not worth a retry. */
export class UnsendableError extends Error {
  override readonly name = 'UnsendableError'
}

type Call = { left: number, over: boolean, resolve: () => void, reject: (error: unknown) => void }
type Entry = { readonly message: OutgoingMessage, readonly bytes: number, readonly call: Call }

/** Length, offset and timestamp deltas and the number of headers of one record, generously. */
const RECORD_OVERHEAD_BYTES = 64
const HEADER_OVERHEAD_BYTES = 10
/** The broker's own wait for its replicas ends before the client's, so that it is heard of. */
const REPLICAS_WITHIN_MS = 8_000
const TOO_LARGE = ['MESSAGE_TOO_LARGE', 'RECORD_LIST_TOO_LARGE']

/**
 * Makes a producer that loses nothing it acknowledged. kafkajs' idempotent producer does when two
 * requests overlap, when a message has no key, or when it is used again after a rejection; so here
 * one request is in flight, every message has a key, and a rejection costs the client its life.
 * Messages of one partition arrive in the order of the sends, at least once.
 */
export function createSafeProducer (options: SafeProducerOptions): Producer {
  return new SafeProducer(options)
}

class SafeProducer implements Producer {
  readonly #options: Required<SafeProducerOptions>
  readonly #closing = new AbortController()
  #client: ProducerClient | undefined
  #queue: Entry[] = []
  #inFlight: readonly Entry[] = []
  #admittedBytes = 0
  #admission: Promise<void> = Promise.resolve()
  #roomFreed: () => void = () => {}
  #draining: Promise<void> | undefined
  #closed: Promise<void> | undefined
  /** So many of the next messages travel alone, because the broker refused them together. */
  #alone = 0

  constructor (options: SafeProducerOptions) {
    this.#options = {
      queueBytes: 16 * 1024 * 1024,
      batchBytes: 512 * 1024,
      messageBytes: 1_000_000,
      closeWithinMs: 10_000,
      onRejected: () => {},
      ...options,
    }
  }

  async send (messages: readonly OutgoingMessage[], signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted()
    if (this.#closed !== undefined) throw new Error('The producer is closed.')
    const sizes = messages.map((message) => this.#checkedBytes(message))
    const bytes = sizes.reduce((sum, size) => sum + size, 0)
    if (messages.length === 0) return
    await this.#admit(bytes)
    signal?.throwIfAborted()
    this.#closing.signal.throwIfAborted()
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const call: Call = { left: messages.length, over: false, resolve, reject }
    const giveUp = () => { this.#giveUp(call, signal?.reason) }
    signal?.addEventListener('abort', giveUp, { once: true })
    this.#admittedBytes += bytes
    for (const [index, message] of messages.entries()) {
      this.#queue.push({ message, bytes: sizes[index] ?? 0, call })
    }
    this.#draining ??= this.#drain()
    await promise.finally(() => signal?.removeEventListener('abort', giveUp))
  }

  /** Waits for what was sent before, then disconnects; what is left in time is rejected. */
  close (): Promise<void> {
    this.#closed ??= this.#close()
    return this.#closed
  }

  #checkedBytes ({ topic, key, value, headers }: OutgoingMessage): number {
    if (key === '') throw new UnsendableError(`A message to ${topic} has no key; give it one.`)
    const bytes = Object.entries(headers).reduce(
      (sum, pair) => sum + Buffer.byteLength(pair.join('')) + HEADER_OVERHEAD_BYTES,
      Buffer.byteLength(key) + (value?.length ?? 0) + RECORD_OVERHEAD_BYTES)
    if (bytes > this.#options.messageBytes) throw tooLarge(topic, bytes, this.#options.messageBytes)
    return bytes
  }

  /** Sends are admitted in their order; one alone is always let in, however big. */
  #admit (bytes: number): Promise<void> {
    this.#admission = this.#admission.then(async () => {
      const isFull = () =>
        this.#admittedBytes > 0 && this.#admittedBytes + bytes > this.#options.queueBytes
      while (isFull() && !this.#closing.signal.aborted) {
        await new Promise<void>((resolve) => { this.#roomFreed = resolve })
      }
    })
    return this.#admission
  }

  /** Ends a call without acknowledgement; its messages not yet on their way never leave. */
  #giveUp (call: Call, error: unknown): void {
    call.over = true
    const left = this.#queue.filter((entry) => entry.call !== call)
    this.#release(this.#queue.filter((entry) => entry.call === call))
    this.#queue = left
    call.reject(error)
  }

  #release (entries: readonly Entry[]): void {
    for (const { bytes } of entries) this.#admittedBytes -= bytes
    this.#roomFreed()
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
      if (count > 0 && (bytes > this.#options.batchBytes || this.#alone > 0)) break
    }
    this.#alone = Math.max(0, this.#alone - 1)
    return this.#queue.splice(0, count)
  }

  /** One request at a time, the same again until it is acknowledged or nobody waits for it. */
  async #deliver (batch: Entry[]): Promise<void> {
    for (let attempt = 1; batch.some(({ call }) => !call.over); attempt++) {
      try {
        await this.#request(batch)
        for (const { call } of batch) if (--call.left === 0) call.resolve()
        break
      } catch (error) {
        this.#discardClient()
        if (TOO_LARGE.includes(kafkaTypeOf(error))) return this.#divide(batch)
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
    const topicMessages = byTopic(batch.filter(({ call }) => !call.over))
    await this.#client.sendBatch({ acks: -1, timeout: REPLICAS_WITHIN_MS, topicMessages })
  }

  /** The broker allows less than we do: one by one, and who is alone too large is told so. */
  #divide (batch: Entry[]): void {
    const [first] = batch
    if (batch.length > 1 || first === undefined) {
      this.#alone = batch.length
      this.#queue.unshift(...batch)
      return
    }
    this.#release(batch)
    this.#giveUp(first.call, tooLarge(first.message.topic, first.bytes, 'the limit of the broker'))
  }

  #discardClient (): void {
    const client = this.#client
    this.#client = undefined
    client?.disconnect().catch(() => {})
  }

  async #close (): Promise<void> {
    await withTimeout(this.#admission.then(() => this.#draining), this.#options.closeWithinMs)
    const unanswered = new Set([...this.#inFlight, ...this.#queue].map(({ call }) => call))
    const reason = new Error('The producer closed before the broker answered.')
    for (const call of unanswered) this.#giveUp(call, reason)
    this.#closing.abort(reason)
    this.#roomFreed()
    await this.#client?.disconnect().catch(() => {})
  }
}

function byTopic (batch: readonly Entry[]): TopicMessages[] {
  const topics = new Map<string, Message[]>()
  for (const { message: { topic, key, value, headers } } of batch) {
    const messages = topics.get(topic) ?? []
    messages.push({ key, value, headers: { ...headers } })
    topics.set(topic, messages)
  }
  return [...topics].map(([topic, messages]) => ({ topic, messages }))
}

function tooLarge (topic: string, bytes: number, limit: number | string): UnsendableError {
  return new UnsendableError(
    `A message of ${bytes} bytes to ${topic} is above ${limit}; divide it before sending.`)
}
