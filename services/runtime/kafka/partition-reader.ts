import type { EachBatchPayload, KafkaMessage } from 'kafkajs'
import type { ConsumeOptions, FetchedBatch, RawMessage } from './bus.ts'
import { sleep } from '../platform/retry.ts'
import type { Commits } from './commits.ts'
import type { MessageMac } from './message-mac.ts'

export type PartitionReaderOptions = {
  readonly topic: string
  readonly partition: number
  /** The first delivery waits for it. */
  readonly start: Promise<void>
  readonly maxBufferedBytes: number
  readonly mac?: MessageMac | undefined
  /** The commits of the generation. */
  readonly commits: Pick<Commits, 'add'>
  /** Aborted when the generation ends. */
  readonly signal: AbortSignal
  readonly fail: (error: unknown) => void
} & Pick<ConsumeOptions, 'onDelivery' | 'onUndecodable'>

export type PartitionReader = {
  /** Buffers a fetched batch and returns at once, so that fetches and heartbeats continue. */
  readonly enqueue: (payload: EachBatchPayload) => void
  readonly ended: () => Promise<void>
  /** Resumes the partition: kafkajs would keep a pause in the next generation. */
  readonly resume: () => void
}

/** kafkajs does not declare these fields. Our patch adds `error`; the batch is empty then. */
type Fetched = EachBatchPayload['batch'] & {
  readonly fetchedOffset: string, readonly error?: unknown,
}

/** Delivers the messages of one partition to `onDelivery`, one delivery at a time. */
export function createPartitionReader (options: PartitionReaderOptions): PartitionReader {
  return new Reader(options)
}

class Reader implements PartitionReader {
  readonly #options: PartitionReaderOptions
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

  constructor (options: PartitionReaderOptions) {
    this.#options = options
  }

  enqueue (payload: EachBatchPayload): void {
    const batch = payload.batch as Fetched
    if (this.#pausing !== undefined || !this.#isExpected(BigInt(batch.fetchedOffset))) return
    this.#latest = payload
    if (batch.error !== undefined) return this.#reject(batch.error)
    this.#position = BigInt(batch.lastOffset()) + 1n
    payload.resolveOffset(batch.lastOffset())
    for (const message of batch.messages) {
      this.#waiting.push(rawMessage(batch, message, this.#options.mac))
      this.#waitingBytes += (message.value?.length ?? 0) + (message.key?.length ?? 0)
    }
    if (this.#waitingBytes >= this.#options.maxBufferedBytes) this.#pause()
    this.#running ??= this.#run()
  }

  async ended (): Promise<void> {
    await this.#running
  }

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
    const { start, signal, fail } = this.#options
    await start
    try {
      while (this.#waiting.length > 0 && !signal.aborted) {
        await this.#deliver(signal)
      }
    } catch (error) {
      fail(error)
    }
    this.#running = undefined
  }

  async #deliver (signal: AbortSignal): Promise<void> {
    const { topic, partition, commits, onDelivery } = this.#options
    const more = () => this.#takeWaiting()
    const commit: FetchedBatch['commit'] = (nextOffset) => commits.add(
      { topic, partition }, nextOffset,
      async (offsets) => { await this.#latest?.commitOffsetsIfNecessary(offsets) })
    const redeliver: FetchedBatch['redeliver'] = (offset, after) => this.#rewind(offset, after)
    const messages = more()
    await onDelivery({ topic, partition, messages, more, signal, commit, redeliver })
  }

  /** The messages before the batch are still delivered. */
  #reject (error: unknown): void {
    const { topic, partition, fail, onUndecodable } = this.#options
    if (onUndecodable === undefined) return fail(error)
    onUndecodable(error, { topic, partition, retry: (after) => this.#pauseUntil(after) })
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
    const { signal } = this.#options
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
