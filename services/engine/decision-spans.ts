import type { StageName } from '../topology.ts'
import type { RawMessage } from '../kafka/bus.ts'
import { byJob } from './message-ids.ts'
import { rowsOf } from './row-headers.ts'
import type { Batch } from './batch.ts'
import type { Decision, Emission } from './stage.ts'
import {
  failSpan, isTracing, spanLinksOf, parentContextOf, SpanKind, startSpan, traceHeaders, withSpan,
  type Attributes, type Span,
} from '../platform/tracing.ts'

/** The spans of decisions that are carried out together. */
export type DecisionSpans = {
  /** What the decisions emit, each with the headers by which its readers go on with its trace. */
  readonly emits: readonly Emission[]
  /** The spans end with the action. */
  readonly around: (action: () => Promise<void>) => Promise<void>
}

type Messages = readonly RawMessage[]
type Place = { readonly stage: StageName, readonly group?: string }

const MAX_LINKS = 32

/** Spans of messages whose stage asks others for them, until the decision takes them up. */
const begun = new WeakMap<RawMessage, Span>()

/**
 * Asks others for a message within the span of its decision, which is not made yet: only for a
 * stage that decides each message by itself.
 */
export async function withinMessage<T> (
  stage: StageName, raw: RawMessage, action: () => Promise<T>
): Promise<T> {
  if (!isTracing()) return await action()
  const span = begun.get(raw) ?? startProcess({ stage }, [raw])
  begun.set(raw, span)
  return await withSpan(span, action)
}

/**
 * Begins the spans of decisions, by the conventions for messaging: one of each job of a decision,
 * so that jobs that are decided together keep their traces apart. It belongs to the trace of the
 * first message and has links to the others.
 */
export function decisionSpans (
  stage: StageName, decisions: readonly Decision[], batch: Batch
): DecisionSpans {
  if (!isTracing()) {
    return { emits: decisions.flatMap(({ emits }) => emits), around: action => action() }
  }
  const spans: Span[] = []
  const emits = decisions.flatMap(decision => {
    const messages = decision.finishes.length > 0
      ? decision.finishes.map(({ raw }) => raw)
      : batch.buried ?? []
    const ofJobs = new Map([...byJob(messages)].map(([job, some]) => {
      const span = processOf({ stage, group: batch.place.group }, some, batch.startedMs)
      const dead = decision.dead ?? (batch.buried === undefined ? undefined : 'dead_letter')
      if (dead !== undefined) failSpan(span, dead)
      return [job, span] as const
    }))
    spans.push(...ofJobs.values())
    return decision.emits.map(emission => traced(emission, ofJobs))
  })
  return { emits, around: action => endingWith(spans, action) }
}

/** The span of its job, or else of the first one that is decided together with it. */
function traced (emission: Emission, spans: ReadonlyMap<string, Span>): Emission {
  const { job = '' } = emission.value as { readonly job?: string }
  const [first] = spans.values()
  const span = spans.get(job) ?? first
  return span === undefined ? emission : { ...emission, trace: traceHeaders(span) }
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

function processOf (place: Place, messages: Messages, startMs: number | undefined): Span {
  const [first] = messages
  const known = first === undefined ? undefined : begun.get(first)
  if (first === undefined || known === undefined) return startProcess(place, messages, startMs)
  begun.delete(first)
  return known
}

function startProcess ({ stage, group }: Place, messages: Messages, startMs?: number): Span {
  const [first, ...others] = messages
  return startSpan({
    name: `${stage} process`,
    kind: SpanKind.CONSUMER,
    parent: parentContextOf(first?.headers ?? {}),
    links: spanLinksOf(others.slice(0, MAX_LINKS).map(({ headers }) => headers)),
    attributes: {
      ...attributesOf(messages),
      ...group !== undefined && { 'messaging.consumer.group.name': group },
    },
    ...startMs !== undefined && { startMs },
  })
}

function attributesOf (messages: Messages): Attributes {
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
    rows: messages.reduce((sum, { headers }) => sum + rowsOf(headers), 0),
  }
}
