import type { StageName } from '../../topology.ts'
import type { RawMessage } from '../kafka/bus.ts'
import {
  failSpan, isTracing, spanLinksOf, parentContextOf, SpanKind, startSpan, traceHeaders, withSpan,
  type Attributes, type Span,
} from '../platform/tracing.ts'
import { byJob, type Decision, type Emission, rowCountOf } from './stage.ts'

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
    rows: messages.reduce((sum, { headers }) => sum + rowCountOf(headers), 0),
  }
}
