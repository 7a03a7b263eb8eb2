import {
  context, propagation, ROOT_CONTEXT, SpanStatusCode, trace,
  type Attributes, type Context, type Link, type Span, type SpanKind,
} from '@opentelemetry/api'

export { SpanKind, type Attributes, type Link, type Span } from '@opentelemetry/api'

/** The W3C Trace Context headers of a span: `traceparent`. */
export type TraceHeaders = Readonly<Record<string, string>>

export type SpanPlan = {
  readonly name: string
  readonly kind: SpanKind
  /** Only ids, counts and codes: no inputs, addresses or names of providers. */
  readonly attributes?: Attributes
  /** The active context by default. */
  readonly parent?: Context
  readonly links?: Link[]
  /** Milliseconds since 1970; now by default. */
  readonly startMs?: number
}

const TRACER = 'verification-jobs'
const NONE: TraceHeaders = {}

let isOn = false

/** Whether tracing is enabled. If not, no function here creates a span. */
export function isTracing (): boolean {
  return isOn
}

/** Called by the tracing SDK after it is registered, and before it shuts down. */
export function setTracing (on: boolean): void {
  isOn = on
}

/** Headers that propagate the given span, or the active one; empty without a span. */
export function traceHeaders (span?: Span): TraceHeaders {
  if (!isOn) return NONE
  const headers: Record<string, string> = {}
  propagation.inject(span === undefined ? context.active() : toContext(span), headers)
  return headers
}

/** The parent context in the headers; the root context if they have none. */
export function extractContext (headers: TraceHeaders): Context {
  return isOn ? propagation.extract(ROOT_CONTEXT, headers) : ROOT_CONTEXT
}

/** Links to the spans in the headers. Headers without a span are left out. */
export function toSpanLinks (all: readonly TraceHeaders[]): Link[] {
  return all.map(headers => trace.getSpanContext(extractContext(headers)))
    .flatMap(context => context === undefined ? [] : [{ context }])
}

/** The trace id in the headers, for logs. */
export function readTraceId ({ traceparent }: TraceHeaders): string | undefined {
  return traceparent?.split('-')[1]
}

/** The trace id of the active span as log fields. Pino changes the object, so each call has one. */
export function traceFields (): { traceId?: string } {
  const context = isOn ? trace.getActiveSpan()?.spanContext() : undefined
  return context === undefined ? {} : { traceId: context.traceId }
}

/** Starts a span that the caller ends. */
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

/** Marks a span as failed. It gets the name of the error only: a message may quote an input. */
export function failSpan (span: Span, why: unknown): void {
  const type = typeof why === 'string' ? why : why instanceof Error ? why.name : typeof why
  span.setStatus({ code: SpanStatusCode.ERROR }).setAttribute('error.type', type)
}

/** Runs an action in a span of its own; the span is undefined if tracing is disabled. */
export async function inSpan<T> (
  plan: SpanPlan, action: (span: Span | undefined) => Promise<T>
): Promise<T> {
  if (!isOn) return await action(undefined)
  const span = startSpan(plan)
  try {
    return await context.with(toContext(span), () => action(span))
  } catch (error) {
    failSpan(span, error)
    throw error
  } finally {
    span.end()
  }
}

/** Runs an action with the span as the active one; the caller ends the span. */
export function withSpan<T> (span: Span, action: () => T): T {
  return context.with(toContext(span), action)
}

/** Runs an action in the trace of the headers, which may come from another process. */
export function withTrace<T> (headers: TraceHeaders, action: () => T): T {
  return isOn ? context.with(extractContext(headers), action) : action()
}

/** Adds attributes to the active span. */
export function addSpanAttributes (attributes: Attributes): void {
  if (isOn) trace.getActiveSpan()?.setAttributes(attributes)
}

const toContext = (span: Span): Context => trace.setSpan(ROOT_CONTEXT, span)
