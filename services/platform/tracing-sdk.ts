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
import { switchTracing } from './tracing.ts'

export type TracingOptions = {
  /** The process: what its spans are told apart by. */
  readonly name: string
  readonly instance: string
  readonly log: Pick<Log, 'warn'>
  readonly sampler: string
  /** Share of the traces that a sampler of ratios keeps, 0 to 1. */
  readonly ratio: number
  /** Where spans go; over OTLP/HTTP, as the standard variables say, when left out. */
  readonly exporter?: SpanExporter
}

/** Spans that wait to be sent; further ones are lost. Several MB at most. */
const MAX_WAITING = 8_192
const SEND_EVERY_MS = 1_000
const STOP_WITHIN_MS = 3_000
const LOG_EVERY_MS = 60_000

/**
 * Registers what makes spans and sends them, in batches beside the work: whoever receives them may
 * be slow or away, which costs spans and nothing else. This file is loaded only where tracing is
 * switched on. Returns what sends the rest and takes it all away again.
 */
export function startTracing (options: TracingOptions): () => Promise<void> {
  const tellLost = createLostLog(options.log)
  hearDropped(tellLost)
  const exporter = counted(options.exporter ?? new OTLPTraceExporter(), tellLost)
  const provider = new TracerProvider({
    resource: resourceFromAttributes({
      'service.name': options.name,
      'service.instance.id': options.instance,
      'service.version': version(),
    }),
    sampler: samplerOf(options),
    spanProcessors: [new BatchSpanProcessor({
      exporter, maxQueueSize: MAX_WAITING, scheduledDelayMillis: SEND_EVERY_MS,
    })],
  })
  trace.setGlobalTracerProvider(provider)
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
  propagation.setGlobalPropagator(new W3CTraceContextPropagator())
  switchTracing(true)
  return async () => {
    switchTracing(false)
    await withTimeout(provider.shutdown().catch(() => {}), STOP_WITHIN_MS)
    for (const part of [trace, context, propagation, diag]) part.disable()
  }
}

/** The library tells of spans it had no room for as a warning; its other words could quote. */
function hearDropped (tellLost: (spans: number) => void): void {
  const quiet = () => {}
  const warn = (text: string) => {
    const dropped = /^Dropped (\d+) spans/.exec(text)?.[1]
    if (dropped !== undefined) tellLost(Number(dropped))
  }
  const logger = { error: quiet, warn, info: quiet, debug: quiet, verbose: quiet }
  diag.setLogger(logger, { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true })
}

/** The samplers of the standard, by their names there. */
function samplerOf ({ sampler, ratio }: Pick<TracingOptions, 'sampler' | 'ratio'>): Sampler {
  const root = sampler.endsWith('always_off')
    ? new AlwaysOffSampler()
    : sampler.endsWith('traceidratio')
      ? new TraceIdRatioBasedSampler(ratio)
      : new AlwaysOnSampler()
  return sampler.startsWith('parentbased_') ? new ParentBasedSampler({ root }) : root
}

/** Counts what could not be sent. */
function counted (exporter: SpanExporter, tellLost: (spans: number) => void): SpanExporter {
  return {
    export: (spans, done) => exporter.export(spans, result => {
      if (result.code !== ExportResultCode.SUCCESS) tellLost(spans.length)
      done(result)
    }),
    shutdown: () => exporter.shutdown(),
    forceFlush: async () => { await exporter.forceFlush?.() },
  }
}

/** Says how many spans were lost, at once and then once a minute, however long that lasts. */
function createLostLog (log: Pick<Log, 'warn'>): (spans: number) => void {
  let lost = 0
  let quietUntilMs = 0
  return spans => {
    lost += spans
    const nowMs = Date.now()
    if (nowMs < quietUntilMs) return
    quietUntilMs = nowMs + LOG_EVERY_MS
    log.warn({ lost }, 'spans could not be sent; the work goes on without them')
    lost = 0
  }
}

function version (): string {
  const file = new URL('../../package.json', import.meta.url)
  return (JSON.parse(readFileSync(file, 'utf8')) as { readonly version: string }).version
}
