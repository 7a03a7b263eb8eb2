import type { SealedRows, Values } from '../../../schemas/types.ts'
import {
  type MessagePosition, type OutgoingMessage, partitionName, type Producer, type RawMessage,
  type TopicPartition,
} from '../kafka/bus.ts'
import type { PartitionHeaders } from '../platform/topics.ts'
import { countBits } from '../platform/bitmap.ts'
import { eventLoop, type FairSlotsOptions, type SlotRequest } from '../platform/limits.ts'
import {
  type Attributes, failSpan, isTracing, extractContext, type Span, SpanKind, toSpanLinks,
  startSpan, traceHeaders, type TraceHeaders, readTraceId, withSpan,
} from '../platform/tracing.ts'
import type {
  InnerTopic, Lane, ReadsOf, ServiceSlug, StageName, TopicName, WritesOf,
} from '../../topology.ts'

/** The rows of a topic; undefined for a topic without rows. */
type RowsOf<T extends TopicName> = T extends keyof SealedRows ? SealedRows[T] : undefined

/** A message for a stage: the decoded value, and the decrypted rows on demand. */
export type Incoming<T extends TopicName = TopicName> = {
  readonly topic: T
  readonly value: Values[T]
  /** Decompresses and decodes the rows, which are already authenticated. */
  readonly rows: () => RowsOf<T>
  readonly raw: RawMessage
}

/** A message that a stage sends. The engine adds partition key, encryption and signature. */
export type Emission<T extends TopicName = InnerTopic> = {
  [Name in T]: {
    readonly topic: Name
    readonly lane: Lane
    readonly service?: ServiceSlug
    readonly value: Omit<Values[Name], 'rowsSchema' | 'sealed'>
    readonly rows: RowsOf<Name>
    /** Trace headers, set by the engine. */
    readonly trace?: TraceHeaders
    /** The partitions of the job: set by its submitter, and passed on by the engine. */
    readonly partitions?: PartitionHeaders
  }
}[T]

/** The position of a message that can never be decided, and the reason of its dead letter. */
export type DeadSource = MessagePosition & { readonly reason: string }

/** What a stage emits. */
export type EmittedBy<S extends StageName> = Emission<Extract<WritesOf<S>, InnerTopic>>

/**
 * A decision of a stage about some of its messages. Messages without a decision are held: their
 * offsets are not committed, and the stage keeps them until `forget`.
 */
export type Decision<S extends StageName = StageName> = {
  /** The messages that this completes; their offsets may be committed. */
  readonly completes: readonly Incoming<ReadsOf<S>>[]
  readonly emits: readonly EmittedBy<S>[]
  /** If set, the messages also go to `<stage>.dead`, with this reason. */
  readonly dead?: string
  /** If set, why the messages had no effect, for the report of a replay. */
  readonly ignored?: string
  /** Runs after all emitted messages are acknowledged and before offsets are committed. */
  readonly afterProduced?: () => Promise<void>
}

/** Delivers messages from this one on again at that time. */
export type Postponement<S extends StageName = StageName> = {
  readonly postpone: Incoming<ReadsOf<S>>
  readonly untilMs: number
}

export type Stage<S extends StageName = StageName> = {
  readonly name: S
  /** Maximum number of messages in one call of `decide`. */
  readonly batch: number
  /** That of single topics, if it differs. */
  readonly batchOf?: Readonly<Partial<Record<ReadsOf<S>, number>>>
  /**
   * Topics with fair scheduling of tenants, so that no tenant waits for all messages of another;
   * only for a stage that decides each message alone. Other topics keep the order of partitions.
   */
  readonly byTenant?: readonly ReadsOf<S>[]
  /**
   * Limits the concurrent batches, to limit memory: a batch is decided, and its emissions are sent,
   * while it has a slot. `of` returns the tenant and the cost of a batch.
   */
  readonly slots?: FairSlotsOptions & {
    readonly of: (messages: readonly Incoming<ReadsOf<S>>[]) => SlotRequest
  }
  /**
   * Decides messages of one partition, in order unless `byTenant`. The engine retries
   * infrastructure errors forever; after three other failures a message is a dead letter.
   */
  readonly decide: (
    messages: readonly Incoming<ReadsOf<S>>[], signal: AbortSignal,
  ) => Promise<readonly (Decision<S> | Postponement<S>)[]>
  /**
   * Resolves the rows of a message that can never be decided, by headers and topic alone: refuses a
   * job that is not accepted, or returns emissions. Its effects are idempotent.
   */
  readonly resolveDead: (
    headers: RawMessage['headers'], source: DeadSource,
  ) => Promise<readonly EmittedBy<S>[]>
  /**
   * Decides held messages of a partition that need no further message; called every `flushHeldMs`
   * of the engine, a second by default. The stage drops these messages: the engine applies the
   * decision as it is, and if that fails, they are dead letters.
   */
  readonly flushHeld?: (partition: TopicPartition) => Promise<readonly Decision<S>[]>
  /** When the oldest held message that is late was written; Infinity without one. */
  readonly heldSinceMs?: () => number
  /** Drops all held messages: the group has a new generation. */
  readonly forget: () => void
}

/**
 * A decoded message: one to decide, one to skip (`why` is one of a few codes for metrics), or one
 * that can never be decoded.
 */
export type Decoded =
  | { readonly kind: 'message', readonly message: Incoming }
  | { readonly kind: 'skip', readonly why: 'tombstone' | 'no_key' | 'forged' }
  | { readonly kind: 'dead', readonly reason: string }

/** Converts between Kafka messages and the values of stages: encoding, keys and encryption. */
export type MessageCodec = {
  readonly decode: (raw: RawMessage) => Promise<Decoded>
  readonly encode: (emission: Emission) => Promise<OutgoingMessage>
}

/** The number of rows of a message, by its headers: the bits of `rows`, or `chunkRows`, or 0. */
export function readRowCount (headers: Readonly<Record<string, string>>): number {
  if (headers.rows !== undefined) return countBits(Buffer.from(headers.rows, 'base64'))
  const chunkRows = Number(headers.chunkRows ?? 0)
  return Number.isSafeInteger(chunkRows) && chunkRows > 0 ? chunkRows : 0
}

/**
 * When a message could be processed first, in ms: when it was written, or is due if it was to wait.
 * The headers of a forged message are not trusted.
 */
export function dueAtMs (
  { timestampMs, headers, forged }: Pick<RawMessage, 'timestampMs' | 'headers' | 'forged'>
): number {
  const notBefore = forged === true ? undefined : headers.notBefore
  return Math.max(timestampMs, Number(notBefore ?? timestampMs))
}

type Headed = Pick<RawMessage, 'headers'>

/** The log fields of messages: their job, or the number of jobs if there are several. */
type MessageIds = {
  readonly tenant?: string
  readonly job?: string
  readonly jobs?: number
  readonly traceId?: string
}

/** Groups messages by job, in order; messages without a job are one group. */
export function byJob<M extends Headed> (
  messages: readonly M[]
): ReadonlyMap<string, readonly M[]> {
  const groups = new Map<string, M[]>()
  for (const message of messages) {
    const { job = '' } = message.headers
    const others = groups.get(job)
    if (others === undefined) groups.set(job, [message])
    else others.push(message)
  }
  return groups
}

/** The log fields of messages, by their headers. */
export function collectIds (messages: readonly Headed[]): MessageIds {
  const [first] = messages
  if (first === undefined) return {}
  const jobs = byJob(messages).size
  if (jobs > 1) return { jobs }
  const { tenant, job } = first.headers
  const traceId = readTraceId(first.headers)
  return { ...tenant && { tenant }, ...job && { job }, ...traceId && { traceId } }
}

/** The log fields of a message: its job and its position. */
export function messageFields (
  raw: MessagePosition & Headed
): MessageIds & TopicPartition & { readonly offset: string } {
  const { topic, partition, offset } = raw
  return { ...collectIds([raw]), topic, partition, offset: String(offset) }
}

type HeldMessage<M> = { readonly message: M, readonly atMs: number }

/** Messages that a stage holds, by partition and offset: one that is decided again is held once. */
export class HeldMessages<M extends { readonly raw: RawMessage }> {
  readonly #partitions = new Map<string, Map<bigint, HeldMessage<M>>>()

  add (message: M, atMs = 0): void {
    const messages = this.#in(message.raw)
    messages.set(message.raw.offset, { message, atMs })
    this.#partitions.set(partitionName(message.raw), messages)
  }

  of (partition: TopicPartition): readonly M[] {
    return [...this.#in(partition).values()].map(({ message }) => message)
  }

  /** When the oldest of all messages was added. */
  sinceMs (): number {
    return Math.min(...[...this.#partitions.values()]
      .flatMap(messages => [...messages.values()].map(({ atMs }) => atMs)))
  }

  remove (positions: readonly MessagePosition[]): void {
    for (const position of positions) this.#in(position).delete(position.offset)
  }

  clear (): void {
    this.#partitions.clear()
  }

  #in (partition: TopicPartition): Map<bigint, HeldMessage<M>> {
    return this.#partitions.get(partitionName(partition)) ?? new Map<bigint, HeldMessage<M>>()
  }
}

/** Encoded messages by lane. Each lane has a producer, so that lanes do not block others. */
type Sealed = ReadonlyMap<Lane, readonly OutgoingMessage[]>

export type Emitter = ReturnType<typeof createEmitter>

/** Messages sealed before the event loop runs again. */
const SEALED_AT_ONCE = 2

/** Seals and sends emissions. Each producer keeps the order; producers send concurrently. */
export function createEmitter (
  { messageCodec, producerOf }: {
    readonly messageCodec: MessageCodec
    readonly producerOf: (lane: Lane) => Producer
  }
) {
  const seal = async (emissions: readonly Emission[]): Promise<Sealed> => {
    const sealed = new Map<Lane, OutgoingMessage[]>()
    for (let from = 0; from < emissions.length; from += SEALED_AT_ONCE) {
      const some = emissions.slice(from, from + SEALED_AT_ONCE)
      const { lane = 'bulk', value } = some[0] ?? {}
      if (from > 0 || lane === 'bulk') await eventLoop.yield(lane, value?.tenant)
      const messages = await Promise.all(some.map(async emission => {
        const message = await messageCodec.encode(emission)
        const trace = isTracing() ? emission.trace ?? traceHeaders() : undefined
        const headers = { ...message.headers, ...emission.partitions, ...trace }
        return { ...message, headers }
      }))
      for (const [index, emission] of some.entries()) {
        const others = sealed.get(emission.lane) ?? []
        sealed.set(emission.lane, others)
        others.push(messages[index] as OutgoingMessage)
      }
    }
    return sealed
  }
  const send = async (sealed: Sealed, signal?: AbortSignal) => {
    await Promise.all([...sealed].map(([lane, messages]) =>
      producerOf(lane).send(messages, signal)))
  }
  return {
    /** Seals and sends all; resolves when the brokers have acknowledged all of them. */
    emit: async (emissions: readonly Emission[], signal?: AbortSignal) =>
      send(await seal(emissions), signal),
    /** The two halves of `emit`, for callers that act in between. */
    seal,
    send,
  }
}

/** The spans of decisions that are applied together. */
export type DecisionSpans = {
  /** The emissions of the decisions with trace headers. */
  readonly emits: readonly Emission[]
  /** Runs the action and ends the spans with it. */
  readonly around: (action: () => Promise<void>) => Promise<void>
}

type Messages = readonly RawMessage[]
type SpanLocation = { readonly stage: StageName, readonly group?: string }
/** When the decisions started, and the dead letter whose rows they resolve. */
type DecisionContext = { readonly startedMs?: number, readonly deadLettered?: Messages }

const MAX_LINKS = 32

/** Spans of messages that started before their decision. */
const startedSpans = new WeakMap<RawMessage, Span>()

/**
 * Runs an action, such as a call of a provider, in the span of a message before its decision. Only
 * for a stage that decides each message alone.
 */
export async function inMessageSpan<T> (
  stage: StageName, raw: RawMessage, action: () => Promise<T>
): Promise<T> {
  if (!isTracing()) return await action()
  const span = startedSpans.get(raw) ?? startProcess({ stage }, [raw])
  startedSpans.set(raw, span)
  return await withSpan(span, action)
}

/**
 * Starts the spans of decisions, by the semantic conventions for messaging: one per job of a
 * decision, so that each job has its own trace. The parent is the first message of the job; the
 * others are links.
 */
export function decisionSpans (
  { stage, group }: Required<SpanLocation>, decisions: readonly Decision[],
  { startedMs, deadLettered }: DecisionContext
): DecisionSpans {
  if (!isTracing()) {
    return { emits: decisions.flatMap(({ emits }) => emits), around: action => action() }
  }
  const spans: Span[] = []
  const emits = decisions.flatMap(decision => {
    const messages = decision.completes.length > 0
      ? decision.completes.map(({ raw }) => raw)
      : deadLettered ?? []
    const ofJobs = new Map([...byJob(messages)].map(([job, jobMessages]) => {
      const [first] = jobMessages
      const span = (first && startedSpans.get(first)) ??
        startProcess({ stage, group }, jobMessages, startedMs)
      if (first !== undefined) startedSpans.delete(first)
      const dead = decision.dead ?? (deadLettered === undefined ? undefined : 'dead_letter')
      if (dead !== undefined) failSpan(span, dead)
      return [job, span] as const
    }))
    spans.push(...ofJobs.values())
    const [firstSpan] = ofJobs.values()
    return decision.emits.map(emission => {
      const { job = '' } = emission.value as { readonly job?: string }
      const span = ofJobs.get(job) ?? firstSpan
      return span === undefined ? emission : { ...emission, trace: traceHeaders(span) }
    })
  })
  return { emits, around: action => endingWith(spans, action) }
}

async function endingWith (spans: readonly Span[], action: () => Promise<void>): Promise<void> {
  try {
    await action()
  } catch (error) {
    for (const span of spans) failSpan(span, error)
    throw error
  } finally {
    for (const span of spans) span.end()
  }
}

function startProcess ({ stage, group }: SpanLocation, messages: Messages, startMs?: number): Span {
  const [first, ...others] = messages
  return startSpan({
    name: `${stage} process`,
    kind: SpanKind.CONSUMER,
    parent: extractContext(first?.headers ?? {}),
    links: toSpanLinks(others.slice(0, MAX_LINKS).map(({ headers }) => headers)),
    attributes: {
      ...buildAttributes(messages),
      ...group !== undefined && { 'messaging.consumer.group.name': group },
    },
    ...startMs !== undefined && { startMs },
  })
}

function buildAttributes (messages: Messages): Attributes {
  const [first] = messages
  if (first === undefined) return {}
  const { tenant, job, chunk } = first.headers
  return {
    'messaging.system': 'kafka',
    'messaging.operation.name': 'process',
    'messaging.operation.type': 'process',
    'messaging.destination.name': first.topic,
    'messaging.destination.partition.id': String(first.partition),
    'messaging.kafka.offset': Number(first.offset),
    'messaging.batch.message_count': messages.length,
    ...tenant && { tenant },
    ...job && { job },
    ...chunk && messages.length === 1 && { chunk: Number(chunk) },
    rows: messages.reduce((sum, { headers }) => sum + readRowCount(headers), 0),
  }
}
