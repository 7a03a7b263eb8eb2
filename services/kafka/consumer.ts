import type { Consumer, EachBatchPayload, Kafka } from 'kafkajs'
import type { ConsumeOptions, Consumption } from './bus.ts'
import type { MessageMac } from './message-mac.ts'
import { withTimeout, retryForever, sleep, type Sleep } from '../platform/retry.ts'
import { isPassing, refusalOf } from './errors.ts'
import { beginMembership, type Membership } from './membership.ts'

export type ConsumerSettings = {
  readonly sessionTimeoutMs: number
  readonly heartbeatMs: number
  readonly rebalanceTimeoutMs: number
  /**
   * How long the broker holds a fetch, if it gathers nothing. By our patch of kafkajs it is a
   * second where nothing came last time, and 100 ms at most while a partition is paused: a resumed
   * partition is noticed as late.
   */
  readonly maxWaitMs: number
  readonly maxBytesPerPartition: number
  readonly aheadBytes: number
  /** How long `stop` waits for running handlers, and again for leaving the group. */
  readonly stopWithinMs: number
}

export const consumerDefaults: ConsumerSettings = {
  sessionTimeoutMs: 6_000,
  heartbeatMs: 2_000,
  rebalanceTimeoutMs: 10_000,
  maxWaitMs: 100,
  maxBytesPerPartition: 512 * 1024,
  aheadBytes: 512 * 1024,
  stopWithinMs: 8_000,
}

/** Before a consumer is built anew. */
const RESTART_MS = 300

/** The same after a refusal, which lasts until somebody mends the user or its rights. */
const REFUSED_MS = 2_000

export type ConsumerOptions = {
  readonly kafka: Kafka
  readonly consume: ConsumeOptions
  readonly settings: ConsumerSettings
  readonly mac?: MessageMac | undefined
  readonly onFatal: (error: unknown) => void
  readonly onRetry: (error: unknown, attempt: number) => void
  /** How it waits before it begins anew; by the time of this machine when left out. */
  readonly sleep?: Sleep
}

/**
 * Starts a consumer in the background; it joins as soon as brokers and topics are there. Handlers
 * run beside kafkajs' fetching, not inside it: one slow partition would otherwise stop the fetches
 * of all others of the broker, and heartbeats go on however long a handler takes.
 */
export function startConsumer (options: ConsumerOptions): Consumption {
  return new GroupConsumer(options)
}

class GroupConsumer implements Consumption {
  readonly #options: ConsumerOptions
  #consumer: Consumer
  readonly #stopping = new AbortController()
  #membership: Membership | undefined
  #heardAtMs = -Infinity
  #stopped: Promise<void> | undefined

  constructor (options: ConsumerOptions) {
    this.#options = options
    this.#consumer = this.#begin()
  }

  ready (): boolean {
    const isHeard = performance.now() - this.#heardAtMs < this.#options.settings.sessionTimeoutMs
    return isHeard && this.#membership?.signal.aborted === false && this.#membership.started()
  }

  stop (): Promise<void> {
    this.#stopped ??= this.#stop()
    return this.#stopped
  }

  #begin (afterMs = 0): Consumer {
    const consumer = this.#build()
    this.#follow(consumer)
    this.#start(consumer, afterMs).catch((error: unknown) => this.#fail(error))
    return consumer
  }

  #build (): Consumer {
    const { kafka, consume, settings } = this.#options
    const heldByBroker = consume.gather?.enough === undefined ? consume.gather : undefined
    return kafka.consumer({
      groupId: consume.group,
      sessionTimeout: settings.sessionTimeoutMs,
      heartbeatInterval: settings.heartbeatMs,
      rebalanceTimeout: settings.rebalanceTimeoutMs,
      maxWaitTimeInMs: heldByBroker?.withinMs ?? settings.maxWaitMs,
      minBytes: heldByBroker?.bytes ?? 1,
      maxBytesPerPartition: settings.maxBytesPerPartition,
      allowAutoTopicCreation: false,
      // Then kafkajs crashes and starts afresh, looking for the coordinator anew.
      retry: { retries: 8, restartOnFailure: async () => !this.#stopping.signal.aborted },
    })
  }

  /** kafkajs calls these listeners in the same turn in which the thing happens. */
  #follow (consumer: Consumer): void {
    const { events } = consumer
    const heard = () => { this.#heardAtMs = performance.now() }
    consumer.on(events.GROUP_JOIN, () => {
      heard()
      this.#join()
    })
    consumer.on(events.HEARTBEAT, heard)
    consumer.on(events.REBALANCING, () => this.#membership?.abort('The group rebalances.'))
    consumer.on(events.STOP, () => this.#membership?.abort('The consumer stopped.'))
    consumer.on(events.CRASH, ({ payload }) => {
      this.#membership?.abort('The consumer crashed.')
      if (this.#stopping.signal.aborted) return
      const isRefused = refusalOf(payload.error) !== undefined
      if (isRefused) this.#options.onRetry(payload.error, 1)
      if (payload.restart) return
      // kafkajs gives up at one lost answer of a coordinator or one refusal, and has disconnected.
      if (isRefused) this.#consumer = this.#begin(REFUSED_MS)
      else if (isPassing(payload.error)) this.#consumer = this.#begin(RESTART_MS)
      else this.#fail(payload.error)
    })
  }

  #join (): void {
    this.#membership?.abort('The group has a new generation.')
    const formerEnded = this.#membership?.ended() ?? Promise.resolve()
    const { consume, mac, settings: { aheadBytes } } = this.#options
    const onFatal = (error: unknown) => this.#fail(error)
    this.#membership = beginMembership({ consume, mac, aheadBytes, onFatal }, formerEnded)
  }

  async #start (consumer: Consumer, afterMs: number): Promise<void> {
    const { consume, onRetry, sleep: pause = sleep } = this.#options
    const { signal } = this.#stopping
    if (afterMs > 0) await pause(afterMs, signal).catch(() => {})
    const join = async () => {
      await consumer.connect()
      await consumer.subscribe({ topics: [...consume.topics], fromBeginning: true })
    }
    await retryForever(join, { signal, onRetry, maxMs: 2_000 }).catch(() => {})
    if (signal.aborted) return
    await consumer.run({
      autoCommit: false,
      eachBatchAutoResolve: false,
      eachBatch: async (payload: EachBatchPayload) => { this.#membership?.take(payload) },
    })
  }

  #fail (error: unknown): void {
    if (this.#stopping.signal.aborted) return
    this.#membership?.abort('The consumer failed.')
    const { consume, onFatal } = this.#options
    const tell = consume.onFailed ?? onFatal
    tell(error)
  }

  /** Handlers are told first and may return while heartbeats go on; then the group is left. */
  async #stop (): Promise<void> {
    this.#stopping.abort()
    this.#membership?.abort('The consumer stops.')
    const { stopWithinMs } = this.#options.settings
    await withTimeout(this.#membership?.ended(), stopWithinMs)
    await withTimeout(this.#consumer.disconnect().catch(() => {}), stopWithinMs)
  }
}
