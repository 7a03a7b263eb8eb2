/** The port of the engine to Kafka. `kafka-bus.ts` implements it; tests have one in memory. */

export type TopicPartition = { readonly topic: string, readonly partition: number }

/** The name of a partition, as the key of a map. */
export const partitionName = ({ topic, partition }: TopicPartition): string =>
  `${topic}:${partition}`

export type MessagePosition = TopicPartition & { readonly offset: bigint }

export type RawMessage = MessagePosition & {
  readonly key: Buffer
  /** Null for a tombstone. */
  readonly value: Buffer | null
  readonly headers: Readonly<Record<string, string>>
  readonly timestampMs: number
  /** The signature is missing or invalid: nothing of the message is trusted, headers included. */
  readonly forged?: true
}

/** What a message takes in memory besides its bytes, about. */
const MESSAGE_BYTES = 256

/** The memory of a message, in bytes: its sender chooses how many there are, and of what. */
export function measureMessage ({ key, value, headers }: RawMessage): number {
  return Object.entries(headers).reduce((sum, [name, text]) => sum + name.length + text.length,
    MESSAGE_BYTES + key.length + (value?.length ?? 0))
}

export type OutgoingMessage = {
  readonly topic: string
  readonly key: string
  readonly value: Buffer | null
  readonly headers: Readonly<Record<string, string>>
  /** By default the key chooses the partition. */
  readonly partition?: number
}

/** Messages of one partition, in the order of their offsets. */
export type FetchedBatch = TopicPartition & {
  readonly messages: readonly RawMessage[]
  /** Takes the following messages that are fetched by now; they are not delivered again. */
  readonly more: () => readonly RawMessage[]
  /** Aborted when the partition is revoked or the consumer stops: return soon, do not commit. */
  readonly signal: AbortSignal
  /**
   * Commits the next offset to read, together with those of other partitions; not after the
   * partition was revoked. Returns before the broker has it, and a crash loses the newest commits:
   * their messages are delivered again.
   */
  readonly commit: (nextOffset: bigint) => void
  /**
   * Delivers the messages from this offset again, after a time in milliseconds or once the promise
   * is settled. The partition is paused until then; others continue. It may be called during a
   * delivery, which should return soon then, or at any time after it.
   */
  readonly redeliver: (fromOffset: bigint, after: number | Promise<void>) => void
}

/** A partition whose next messages the client cannot decode, such as Snappy. */
type UndecodableBatch = TopicPartition & {
  /** Fetches them again once the promise is settled; the partition is paused until then. */
  readonly retry: (after: Promise<void>) => void
}

/** Waits for more messages until there are `bytes` of them, as `fetch.min.bytes` does. */
export type FetchBatching = {
  readonly bytes: number
  /** `max.partition.fetch.bytes`: how much of a partition a fetch returns. */
  readonly maxPartitionBytes?: number
  readonly maxWaitMs: number
}

export type ConsumeOptions = {
  readonly group: string
  readonly topics: readonly string[]
  /** Without it, messages are delivered at once. */
  readonly fetchBatching?: FetchBatching | undefined
  /**
   * Called concurrently for different partitions, one delivery at a time for each partition. A
   * rejection is fatal and stops the process.
   */
  readonly onDelivery: (delivery: FetchedBatch) => Promise<void>
  /** The group has a new generation: the handler must drop all messages that it holds. */
  readonly onAssigned: () => void
  /**
   * Called when the consumer failed: a handler rejected, the client crashed permanently, or a topic
   * is missing. The caller stops it and may start another one. Without it, the process stops, and
   * the consumer waits for missing topics.
   */
  readonly onFailed?: ((error: unknown) => void) | undefined
  /** Called for an undecodable batch, of which other partitions notice nothing. Fatal without. */
  readonly onUndecodable?: ((error: unknown, batch: UndecodableBatch) => void) | undefined
}

export type Consumption = {
  /** True once the group is joined and while heartbeats succeed. */
  readonly ready: () => boolean
  readonly stop: () => Promise<void>
}

export type Producer = {
  /** Resolves when all in-sync replicas have acknowledged every message; retries until then. */
  readonly send: (messages: readonly OutgoingMessage[], signal?: AbortSignal) => Promise<void>
  readonly close: () => Promise<void>
}

export type Bus = {
  readonly consume: (options: ConsumeOptions) => Promise<Consumption>
  /**
   * One producer per name, with its own connection and queue. All callers of a name share it, and
   * `close` of the bus closes it.
   */
  readonly producer: (name: string) => Producer
  /**
   * The value of the last message with this key in a topic; undefined when there is none, or there
   * was a tombstone, which is final. Reads the partition of the key from its start, so it is for
   * rare use.
   */
  readonly lastValue: (topic: string, key: string) => Promise<Buffer | undefined>
  /** The names of all topics; rejects when the brokers are unavailable. */
  readonly topicNames: () => Promise<ReadonlySet<string>>
  /**
   * Watches the partitions of topics until the bus closes. The function that it returns has the
   * number of partitions of a topic that new jobs are spread over.
   */
  readonly watchPartitions: (topics: readonly string[]) => (topic: string) => number
  readonly close: () => Promise<void>
}
