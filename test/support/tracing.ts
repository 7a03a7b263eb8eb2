import { ExportResultCode } from '@opentelemetry/core'
import type { ReadableSpan, SpanExporter } from '@opentelemetry/sdk-trace'
import { startTracing, type TracingOptions } from '../../services/runtime/platform/tracing-sdk.ts'

/** Does something with tracing switched on; gives the spans that ended, in order. */
export async function spansOf (
  action: () => unknown, more: Partial<TracingOptions> = {}
): Promise<readonly ReadableSpan[]> {
  const spans: ReadableSpan[] = []
  const exporter: SpanExporter = {
    export: (some, done) => {
      spans.push(...some)
      done({ code: ExportResultCode.SUCCESS })
    },
    shutdown: async () => {},
  }
  const stop = startTracing({
    name: 'sample',
    instance: 'sample-1',
    log: { warn: () => {} },
    sampler: 'parentbased_always_on',
    ratio: 1,
    exporter,
    ...more,
  })
  try {
    await action()
  } finally {
    await stop()
  }
  return spans
}

/** A place in a trace that began elsewhere, by a digit. */
export const placeIn = (trace: number, span: number, flags = '01') =>
  ({ traceparent: `00-${idOf(trace, 32)}-${idOf(span, 16)}-${flags}` })

/** The id that `placeIn` makes of a digit. */
export const idOf = (digit: number, length = 32): string => String(digit).repeat(length)
