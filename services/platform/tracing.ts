import {
  context, propagation, ROOT_CONTEXT, SpanStatusCode, trace,
  type Attributes, type Context, type Link, type Span, type SpanKind,
} from '@opentelemetry/api'

export { SpanKind, type Attributes, type Link, type Span } from '@opentelemetry/api'

/** Headers that name a place in a trace, as W3C Trace Context writes them: `traceparent`. */
export type TraceHeaders = Readonly<Record<string, string>>

export type SpanPlan = {
  readonly name: string
  readonly kind: SpanKind
  /** Ids, counts and codes only: no input, no address and no name of a provider. */
  readonly attributes?: Attributes
  /** Where it belongs; below what runs now when left out. */
  readonly parent?: Context
  readonly links?: Link[]
  /** Milliseconds since 1970; now when left out. */
  readonly startMs?: number
}

const TRACER = 'verification-jobs'
const NONE: TraceHeaders = {}

let isOn = false

/** Whether spans are made at all: without it every function here does next to nothing. */
export function isTracing (): boolean {
  return isOn
}

/** Told by whoever has registered what makes and sends spans, or has taken it away again. */
export function switchTracing (on: boolean): void {
  isOn = on
}

/** Headers by which others go on with the trace of a span, or of what runs now; none without. */
export function traceHeaders (span?: Span): TraceHeaders {
  if (!isOn) return NONE
  const headers: Record<string, string> = {}
  propagation.inject(span === undefined ? context.active() : contextOf(span), headers)
  return headers
}

/** The place in a trace that headers name; outside of all traces when they name none. */
export function parentIn (headers: TraceHeaders): Context {
  return isOn ? propagation.extract(ROOT_CONTEXT, headers) : ROOT_CONTEXT
}

/** Links to the places that headers name; those that name none give none. */
export function linksTo (all: readonly TraceHeaders[]): Link[] {
  return all.map(headers => trace.getSpanContext(parentIn(headers)))
    .flatMap(found => found === undefined ? [] : [{ context: found }])
}

/** The trace that headers name, for logs. */
export function traceIdIn ({ traceparent }: TraceHeaders): string | undefined {
  return traceparent?.split('-')[1]
}

/** What every line of a log carries while a span is active; a new object for each line. */
export function traceFields (): { traceId?: string } {
  const found = isOn ? trace.getActiveSpan()?.spanContext() : undefined
  return found === undefined ? {} : { traceId: found.traceId }
}

/** Begins a span that somebody else ends. */
export function startSpan (
  { name, kind, attributes, links, startMs, parent = context.active() }: SpanPlan
): Span {
  const options = {
    kind,
    ...attributes && { attributes },
    ...links && { links },
    ...startMs !== undefined && { startTime: startMs },
  }
  return trace.getTracer(TRACER).startSpan(name, options, parent)
}

/** The span failed; of an error only its name is told, as its message may quote an input. */
export function failSpan (span: Span, why: unknown): void {
  const type = typeof why === 'string' ? why : why instanceof Error ? why.name : typeof why
  span.setStatus({ code: SpanStatusCode.ERROR }).setAttribute('error.type', type)
}

/** Does something within a span that begins and ends with it; undefined stands for none. */
export async function inSpan<T> (
  plan: SpanPlan, action: (span: Span | undefined) => Promise<T>
): Promise<T> {
  if (!isOn) return await action(undefined)
  const span = startSpan(plan)
  try {
    return await context.with(contextOf(span), () => action(span))
  } catch (error) {
    failSpan(span, error)
    throw error
  } finally {
    span.end()
  }
}

/** Does something as a part of a span that somebody else ends. */
export function withSpan<T> (span: Span, action: () => T): T {
  return context.with(contextOf(span), action)
}

/** Does something as a part of the trace that headers name, in whichever process that began. */
export function withTrace<T> (headers: TraceHeaders, action: () => T): T {
  return isOn ? context.with(parentIn(headers), action) : action()
}

/** Adds what became known to the span that is active. */
export function noteOnSpan (attributes: Attributes): void {
  if (isOn) trace.getActiveSpan()?.setAttributes(attributes)
}

const contextOf = (span: Span): Context => trace.setSpan(ROOT_CONTEXT, span)
