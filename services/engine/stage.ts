import type { SealedRows, Values } from '../../schemas/types.ts'
import type {
  InnerTopic, Lane, ReadsOf, ServiceSlug, StageName, TopicName, WritesOf,
} from '../topology.ts'
import type { RawMessage } from '../kafka/bus.ts'
import type { TraceHeaders } from '../platform/tracing.ts'

/** Rows of a topic that carries any, else undefined. */
export type RowsOf<T extends TopicName> = T extends keyof SealedRows ? SealedRows[T] : undefined

/** A message a stage was given: the readable value, and the opened rows on demand. */
export type Incoming<T extends TopicName = TopicName> = {
  readonly topic: T
  readonly value: Values[T]
  /** Decompresses and decodes the rows, whose seal was checked before. */
  readonly rows: () => RowsOf<T>
  readonly raw: RawMessage
}

/** A message a stage wants to send; it never sees Kafka, keys or seals. */
export type Emission<T extends TopicName = InnerTopic> = {
  [Name in T]: {
    readonly topic: Name
    readonly lane: Lane
    readonly service?: ServiceSlug
    readonly value: Omit<Values[Name], 'rowsSchema' | 'sealed'>
    readonly rows: RowsOf<Name>
    /** Headers by which readers go on with its trace; set by the engine alone. */
    readonly trace?: TraceHeaders
  }
}[T]

/** What a stage sends by emitting it. */
type EmittedBy<S extends StageName> = Emission<Extract<WritesOf<S>, InnerTopic>>

/**
 * What a stage decided of some of its messages. Messages in no decision are held: their offsets are
 * not committed, and the stage remembers them until `forget`.
 */
export type Decision<S extends StageName = StageName> = {
  /** The messages this decides for good, never to be handed over again unless redelivered. */
  readonly finishes: readonly Incoming<ReadsOf<S>>[]
  readonly emits: readonly EmittedBy<S>[]
  /** Set when the messages go to `<stage>.dead` as they are, besides what is emitted for them. */
  readonly dead?: string
  /** Runs after everything emitted is acknowledged and before offsets are committed. */
  readonly afterProduced?: () => Promise<void>
}

/** Messages from this one on are to be handed over again at that time. */
export type Postponement<S extends StageName = StageName> = {
  readonly postpone: Incoming<ReadsOf<S>>
  readonly untilMs: number
}

export type Stage<S extends StageName = StageName> = {
  readonly name: S
  /** At most so many messages are handed to one call of `decide`. */
  readonly batch: number
  /**
   * Partitions of the lane `bulk` that are worked on at the same time in a process, for a stage
   * whose work takes much memory; all when left out.
   */
  readonly bulkAtOnce?: number
  /**
   * Topics whose messages are taken from each tenant in turn, so that nobody waits for all that
   * another has sent; of a stage that decides each message alone. Others are taken in the order of
   * their partition.
   */
  readonly byTenant?: readonly ReadsOf<S>[]
  /**
   * Decides messages of one partition, in order unless `byTenant`. Throws only what is not its
   * decision: broken infrastructure is retried by the engine without end, anything else three
   * times, then as dead.
   */
  readonly decide: (
    messages: readonly Incoming<ReadsOf<S>>[], signal: AbortSignal,
  ) => Promise<readonly (Decision<S> | Postponement<S>)[]>
  /**
   * What is emitted for the rows of a message that can never be decided, known by its headers and
   * topic alone.
   */
  readonly whenDead: (
    headers: RawMessage['headers'], topic: RawMessage['topic'],
  ) => Promise<readonly EmittedBy<S>[]>
  /**
   * Decisions about held messages of a partition that have nothing more to wait for, though nothing
   * new came for them; asked for every second. The stage forgets what it gives here: it is carried
   * out as it is, and where that is not possible, the messages end as dead letters.
   */
  readonly release?: (
    place: Pick<RawMessage, 'topic' | 'partition'>,
  ) => Promise<readonly Decision<S>[]>
  /** Everything held of any partition is dropped: the group has a new generation. */
  readonly forget: () => void
}
