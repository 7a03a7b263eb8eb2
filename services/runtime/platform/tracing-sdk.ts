import { readFileSync } from 'node:fs'
import { context, diag, DiagLogLevel, propagation, trace } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import { ExportResultCode, W3CTraceContextPropagator } from '@opentelemetry/core'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto'
import { resourceFromAttributes } from '@opentelemetry/resources'
import {
  AlwaysOffSampler, AlwaysOnSampler, BatchSpanProcessor, ParentBasedSampler,
  TraceIdRatioBasedSampler, TracerProvider, type Sampler, type SpanExporter,
} from '@opentelemetry/sdk-trace'
import type { Log } from './log.ts'
import { withTimeout } from './retry.ts'
import { setTracing } from './tracing.ts'

export type TracingOptions = {
  /** The name of the service in its spans. */
  readonly name: string
  readonly instance: string
  readonly log: Pick<Log, 'warn'>
  readonly sampler: string
  /** Ratio of a `traceidratio` sampler, 0 to 1. */
  readonly ratio: number
  /** OTLP/HTTP, configured by the standard variables, by default. */
  readonly exporter?: SpanExporter
}

/** Maximum number of spans in the queue, several MB; further ones are dropped. */
const MAX_QUEUE = 8_192
const EXPORT_MS = 1_000
const STOP_TIMEOUT_MS = 3_000
const LOG_INTERVAL_MS = 60_000

/**
 * Registers the OpenTelemetry SDK, which exports spans in batches in the background: a slow or
 * unavailable collector loses spans and delays nothing. This file is loaded only if tracing is
 * enabled. Returns a function that exports the remaining spans and unregisters the SDK.
 */
export function startTracing (options: TracingOptions): () => Promise<void> {
  const reportLost = createLostLog(options.log)
  reportDropped(reportLost)
  const exporter = counted(options.exporter ?? new OTLPTraceExporter(), reportLost)
  const provider = new TracerProvider({
    resource: resourceFromAttributes({
      'service.name': options.name,
      'service.instance.id': options.instance,
      'service.version': version(),
    }),
    sampler: createSampler(options),
    spanProcessors: [new BatchSpanProcessor({
      exporter, maxQueueSize: MAX_QUEUE, scheduledDelayMillis: EXPORT_MS,
    })],
  })
  trace.setGlobalTracerProvider(provider)
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
  propagation.setGlobalPropagator(new W3CTraceContextPropagator())
  setTracing(true)
  return async () => {
    setTracing(false)
    await withTimeout(provider.shutdown().catch(() => {}), STOP_TIMEOUT_MS)
    for (const api of [trace, context, propagation, diag]) api.disable()
  }
}

/** The SDK reports dropped spans as a warning. Its other messages could quote inputs. */
function reportDropped (reportLost: (spans: number) => void): void {
  const quiet = () => {}
  const warn = (text: string) => {
    const dropped = /^Dropped (\d+) spans/.exec(text)?.[1]
    if (dropped !== undefined) reportLost(Number(dropped))
  }
  const logger = { error: quiet, warn, info: quiet, debug: quiet, verbose: quiet }
  diag.setLogger(logger, { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true })
}

/** The sampler of the OpenTelemetry name. */
function createSampler ({ sampler, ratio }: TracingOptions): Sampler {
  const root = sampler.endsWith('always_off')
    ? new AlwaysOffSampler()
    : sampler.endsWith('traceidratio')
      ? new TraceIdRatioBasedSampler(ratio)
      : new AlwaysOnSampler()
  return sampler.startsWith('parentbased_') ? new ParentBasedSampler({ root }) : root
}

/** Counts spans that the exporter could not send. */
function counted (exporter: SpanExporter, reportLost: (spans: number) => void): SpanExporter {
  return {
    export: (spans, done) => exporter.export(spans, result => {
      if (result.code !== ExportResultCode.SUCCESS) reportLost(spans.length)
      done(result)
    }),
    shutdown: () => exporter.shutdown(),
    forceFlush: async () => { await exporter.forceFlush?.() },
  }
}

/** Logs the number of lost spans, at most once a minute. */
function createLostLog (log: Pick<Log, 'warn'>): (spans: number) => void {
  let lost = 0
  let quietUntilMs = 0
  return spans => {
    lost += spans
    const nowMs = Date.now()
    if (nowMs < quietUntilMs) return
    quietUntilMs = nowMs + LOG_INTERVAL_MS
    log.warn({ lost }, 'spans lost: the OTLP endpoint is unavailable or too slow')
    lost = 0
  }
}

function version (): string {
  const file = new URL('../../../package.json', import.meta.url)
  return (JSON.parse(readFileSync(file, 'utf8')) as { readonly version: string }).version
}
