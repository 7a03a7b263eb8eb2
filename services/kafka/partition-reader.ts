import type { EachBatchPayload, KafkaMessage } from 'kafkajs'
import type { ConsumeOptions, Delivery, FetchBatching, RawMessage } from './bus.ts'
import { backoffMs, sleep } from '../platform/retry.ts'
import type { MessageMac } from './message-mac.ts'
import { isPassing, kafkaTypeOf } from './errors.ts'

export type PartitionReaderOptions = {
  readonly topic: string
  readonly partition: number
  /** Delivery begins when it has resolved. */
  readonly start: Promise<void>
  readonly aheadBytes: number
  readonly gather?: FetchBatching | undefined
  readonly mac?: MessageMac | undefined
  /** Aborted when the generation of the group is over; aborted from here when a commit says so. */
  readonly membership: AbortController
  readonly fail: (error: unknown) => void
  readonly onDelivery: ConsumeOptions['onDelivery']
}

export type PartitionReader = {
  /** Queues what was fetched and returns at once, so that fetching and heartbeats go on. */
  readonly take: (payload: EachBatchPayload) => void
  readonly ended: () => Promise<void>
  /** Ends a pause, which kafkajs would otherwise carry into the next generation. */
  readonly release: () => void
}

/** kafkajs knows where a batch was fetched from, but does not declare it. */
type Fetched = EachBatchPayload['batch'] & { readonly fetchedOffset: string }
type Again = { readonly fromOffset: bigint, readonly afterMs: number }

/**
 * Refusals of a commit that mean that the generation is over. A coordinator that is none any longer
 * says nothing of the generation: the heartbeats find out whether it moved or was only restarted.
 */
const LOST = ['REBALANCE_IN_PROGRESS', 'ILLEGAL_GENERATION', 'UNKNOWN_MEMBER_ID']

/** Hands the messages of one partition to `onDelivery`, one delivery after another. */
export function createPartitionReader (options: PartitionReaderOptions): PartitionReader {
  return new Reader(options)
}

class Reader implements PartitionReader {
  readonly #options: PartitionReaderOptions
  #waiting: RawMessage[] = []
  #waitingBytes = 0
  /** Where the next fetch begins, as far as is known, and where an unexpected one began. */
  #position: bigint | undefined
  #sighted: bigint | undefined
  #resume: (() => void) | undefined
  #onTaken: (() => void) | undefined
  #latest: EachBatchPayload | undefined
  #running: Promise<void> | undefined

  constructor (options: PartitionReaderOptions) {
    this.#options = options
  }

  take (payload: EachBatchPayload): void {
    const batch = payload.batch as Fetched
    if (!this.#isExpected(BigInt(batch.fetchedOffset))) return
    this.#latest = payload
    this.#position = BigInt(batch.lastOffset()) + 1n
    payload.resolveOffset(batch.lastOffset())
    for (const message of batch.messages) {
      this.#waiting.push(rawMessage(batch, message, this.#options.mac))
      this.#waitingBytes += (message.value?.length ?? 0) + (message.key?.length ?? 0)
    }
    if (this.#waitingBytes >= this.#options.aheadBytes) this.#pause()
    this.#onTaken?.()
    this.#running ??= this.#run()
  }

  async ended (): Promise<void> {
    await this.#running
  }

  release (): void {
    this.#resume?.()
    this.#resume = undefined
  }

  /**
   * A fetch that was on its way when the position moved (a new generation, or `again`) is stale;
   * taking it would skip messages. It comes once at most, so an unknown position is believed when
   * two fetches in a row name it; what is dropped here is fetched again at once.
   */
  #isExpected (fetched: bigint): boolean {
    const expected = fetched === this.#position || fetched === this.#sighted
    this.#sighted = expected ? undefined : fetched
    return expected
  }

  /** Pauses anew each time: a reader of the generation before may just have ended its own pause. */
  #pause (): void {
    this.#resume = this.#latest?.pause()
  }

  async #run (): Promise<void> {
    const { start, membership: { signal }, fail } = this.#options
    await start
    try {
      while (this.#waiting.length > 0 && !signal.aborted) {
        await this.#gather(signal)
        if (!signal.aborted) await this.#deliver(signal)
      }
    } catch (error) {
      fail(error)
    }
    this.#running = undefined
  }

  /** Waits for messages that follow, for as long as those at hand are not enough. */
  async #gather (signal: AbortSignal): Promise<void> {
    const { gather, aheadBytes } = this.#options
    if (gather?.enough === undefined) return
    const { withinMs, enough } = gather
    // No more comes of a partition that is paused.
    const most = Math.min(gather.bytes, aheadBytes)
    let tooLate: Promise<string> | undefined
    while (this.#waitingBytes < most && !enough(this.#waiting)) {
      tooLate ??= sleep(withinMs, signal).then(() => 'late', () => 'late')
      const taken = new Promise<string>(resolve => { this.#onTaken = () => resolve('taken') })
      if (await Promise.race([taken, tooLate]) === 'late') return
    }
  }

  async #deliver (signal: AbortSignal): Promise<void> {
    const { topic, partition, onDelivery } = this.#options
    const more = () => this.#takeWaiting()
    const commit: Delivery['commit'] = (nextOffset) => this.#commit(nextOffset)
    const messages = more()
    const outcome = await onDelivery({ topic, partition, messages, more, signal, commit })
    if (outcome.go === 'again' && !signal.aborted) await this.#rewind(outcome, signal)
  }

  #takeWaiting (): readonly RawMessage[] {
    const messages = this.#waiting
    this.#waiting = []
    this.#waitingBytes = 0
    this.release()
    return messages
  }

  /** Drops what was fetched ahead, moves the fetch position back and pauses the partition. */
  async #rewind ({ fromOffset, afterMs }: Again, signal: AbortSignal): Promise<void> {
    this.#pause()
    this.#waiting = []
    this.#waitingBytes = 0
    this.#position = fromOffset
    this.#latest?.resolveOffset((fromOffset - 1n).toString())
    await sleep(afterMs, signal).catch(() => {})
    this.release()
  }

  /**
   * Commits until the broker has it. Unlike kafkajs' own commits it can't pass silently, nor reach
   * the broker under a generation that began after the delivery.
   */
  async #commit (nextOffset: bigint): Promise<void> {
    const { topic, partition, membership } = this.#options
    const offsets = { topics: [{ topic, partitions: [{ partition, offset: `${nextOffset}` }] }] }
    for (let attempt = 1; ; attempt++) {
      membership.signal.throwIfAborted()
      try {
        return await this.#latest?.commitOffsetsIfNecessary(offsets)
      } catch (error) {
        if (LOST.includes(kafkaTypeOf(error))) membership.abort(error)
        if (!isPassing(error)) throw error
      }
      await sleep(backoffMs(attempt, { maxMs: 1_000 }), membership.signal)
    }
  }
}

/** A message as the client gives it, in the words of the engine; judged if there is a MAC. */
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
