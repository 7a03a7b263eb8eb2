/**
 * What the engine knows of Kafka: a port with two implementations, `lib/kafka` and, in tests, one
 * in memory.
 */

export type RawMessage = {
  readonly topic: string
  readonly partition: number
  readonly offset: bigint
  readonly key: Buffer
  /** Null for a tombstone. */
  readonly value: Buffer | null
  readonly headers: Readonly<Record<string, string>>
  readonly timestampMs: number
  /** No process of ours sent it: nothing of it may be believed, its headers included. */
  readonly forged?: true
}

export type OutgoingMessage = {
  readonly topic: string
  readonly key: string
  readonly value: Buffer | null
  readonly headers: Readonly<Record<string, string>>
}

/** Messages of ONE partition in order of their offsets, handed over by the broker's client. */
export type Delivery = {
  readonly topic: string
  readonly partition: number
  readonly messages: readonly RawMessage[]
  /** Those that follow and are there by now, of which no delivery will be made. */
  readonly more: () => readonly RawMessage[]
  /** Aborted when the partition is lost or the consumer stops: return soon, commit nothing more. */
  readonly signal: AbortSignal
  /** Everything below this offset is done; throws when the partition is no longer ours. */
  readonly commit: (nextOffset: bigint) => Promise<void>
}

/** Messages that follow others may be held back until they are so many bytes: by the broker. */
export type FetchBatching = {
  readonly bytes: number
  readonly withinMs: number
  /** Given, the client holds them, and no longer than until it says so of those at hand. */
  readonly enough?: (messages: readonly RawMessage[]) => boolean
}

export type ConsumeOptions = {
  readonly group: string
  readonly topics: readonly string[]
  /** Left out, every message comes at once. */
  readonly gather?: FetchBatching | undefined
  /**
   * Called for the partitions concurrently, for one partition one after another. When it resolves
   * to a number, delivery of this partition goes on, from the first message not yet handed over,
   * after so many milliseconds from `again` on; a rejection stops the process (it cannot heal).
   */
  readonly onDelivery: (delivery: Delivery) => Promise<DeliveryOutcome>
  /** A new generation of the group began: whatever is held of any partition is dropped. */
  readonly onAssigned: () => void
  /**
   * Told that this consumer can't go on: a handler rejected, or the client crashed for good. It is
   * to be stopped and may be replaced; left out, the process ends.
   */
  readonly onFailed?: ((error: unknown) => void) | undefined
}

/** `next`: go on. `again`: hand over the messages from this offset on once more, after a pause. */
export type DeliveryOutcome =
  | { readonly go: 'next' }
  | { readonly go: 'again', readonly fromOffset: bigint, readonly afterMs: number }

export type Consumption = {
  /** True once the group is joined and the last heartbeat is young. */
  readonly ready: () => boolean
  readonly stop: () => Promise<void>
}

export type Producer = {
  /**
   * Resolves when every message is acknowledged by all in-sync replicas; retries without end until
   * then.
   */
  readonly send: (messages: readonly OutgoingMessage[], signal?: AbortSignal) => Promise<void>
  readonly close: () => Promise<void>
}

export type Bus = {
  readonly consume: (options: ConsumeOptions) => Promise<Consumption>
  /** Producers of different names share neither connection nor queue. */
  readonly producer: (name: string) => Producer
  /**
   * The value of the newest message with this key in a topic: undefined when there is none, or
   * there was a tombstone, which ends a key for good. Reads the key's partition from its beginning,
   * so it is for what hardly ever happens.
   */
  readonly lastValue: (topic: string, key: string) => Promise<Buffer | undefined>
  readonly close: () => Promise<void>
}
