import { Counter, Gauge, Histogram, Registry, collectDefaultMetrics } from 'prom-client'
import { initialSeriesOf, METRICS, type MetricDefinition } from './metric-list.ts'
import type { Log } from './log.ts'
import { withTimeout } from './retry.ts'

type Metric = typeof METRICS[number]
type Named<T extends Metric['type']> = Extract<Metric, { type: T }>['name']
type LabelsOf<N extends string> = {
  readonly [L in Extract<Metric, { name: N }>['labels'][number]]: string
}
/** The labels of a counter, with the `values` of the list where it has some: those start at 0. */
export type CounterLabels<N extends Named<'counter'>> = {
  readonly [L in keyof LabelsOf<N>]: ValueOf<Extract<Metric, { name: N }>, L>
}
type ValueOf<M, L extends string> = M extends { readonly values: infer V }
  ? ValueIn<V extends readonly (infer One)[] ? One : V, L>
  : string
type ValueIn<V, L extends string> = L extends 'stage'
  ? string
  : V extends Readonly<Record<L, readonly (infer Value extends string)[]>> ? Value : never

/** A value of a gauge with its labels. */
type Series<L> = { readonly labels: L, readonly value: number }

type Reading<L> = () => Promise<readonly Series<L>[]>

export type Metrics = {
  readonly count: <N extends Named<'counter'>>(
    name: N, labels: CounterLabels<N>, more?: number,
  ) => void
  readonly observe: <N extends Named<'histogram'>>(
    name: N, labels: LabelsOf<N>, seconds: number,
  ) => void
  /** Calls `read` at every scrape, so that the value is current even while nothing happens. */
  readonly watch: <N extends Named<'gauge'>>(
    name: N, labels: LabelsOf<N>, read: () => number,
  ) => void
  /**
   * Like `watch`, for series that are not known in advance. One read returns all series of the
   * metric; series that it leaves out disappear. It must not reject.
   */
  readonly watchAll: <N extends Named<'gauge'>>(name: N, read: Reading<LabelsOf<N>>) => void
  /** The exposition for Prometheus, and its content type. */
  readonly text: () => Promise<string>
  readonly contentType: string
}

const SECONDS = [0.001, 0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]
/**
 * Sampling interval of the event loop delay. A tenth of it would be most of the work of an idle
 * process. Node measures the time between two samples, so the metric is never below this.
 */
const EVENT_LOOP_SAMPLE_MS = 100

/**
 * All metrics of the list in one registry. With `services`, those of this process, also the metrics
 * of Node and the initial series of these services.
 */
export function createMetrics (services?: readonly string[]): Metrics {
  const registry = new Registry()
  const registers = [registry]
  const counters = new Map<string, Counter>()
  const histograms = new Map<string, Histogram>()
  const watches = new Map<string, Watched>()
  for (const { name, type, labels: labelNames, help } of METRICS as readonly MetricDefinition[]) {
    const common = { name, help, labelNames, registers }
    if (type === 'counter') counters.set(name, new Counter(common))
    if (type === 'histogram') histograms.set(name, new Histogram({ ...common, buckets: SECONDS }))
    if (type === 'gauge') watches.set(name, watchedGauge(common))
  }
  if (services !== undefined) {
    collectDefaultMetrics({
      register: registry, eventLoopMonitoringPrecision: EVENT_LOOP_SAMPLE_MS,
    })
    for (const definition of METRICS as readonly MetricDefinition[]) {
      for (const labels of services.flatMap(service => initialSeriesOf(definition, service))) {
        counters.get(definition.name)?.inc(labels, 0)
        histograms.get(definition.name)?.zero(labels)
      }
    }
  }
  return {
    count: (name, labels, more = 1) => counters.get(name)?.inc(labels, more),
    observe: (name, labels, seconds) => histograms.get(name)?.observe(labels, seconds),
    watch: (name, labels, read) => watches.get(name)?.values.push({ labels, read }),
    watchAll: (name, read) => watches.get(name)?.readings.push(read),
    text: () => registry.metrics(),
    contentType: registry.contentType,
  }
}

type Watched = {
  readonly values: { readonly labels: object, readonly read: () => number }[]
  readonly readings: Reading<object>[]
}

function watchedGauge (
  common: { name: string, help: string, labelNames: readonly string[], registers: Registry[] }
): Watched {
  const watched: Watched = { values: [], readings: [] }
  const collect = async () => {
    const readings = (await Promise.all(watched.readings.map(read => read()))).flat()
    // Series that are gone, of a deleted consumer group for example, must disappear.
    if (watched.readings.length > 0) {
      gauge.reset()
      // `reset` sets a gauge without labels to 0.
      if (common.labelNames.length === 0) gauge.remove()
    }
    for (const { labels, value } of readings) gauge.set(labels, value)
    for (const { labels, read } of watched.values) gauge.set(labels, read())
  }
  const gauge: Gauge = new Gauge({ ...common, collect })
  return watched
}

type ReadingOptions = {
  /** Name in logs. */
  readonly name: string
  readonly log: Pick<Log, 'warn'>
  /** A younger value is returned without a new read. */
  readonly minAgeMs?: number
  /** A caller waits no longer than this for a read; then it gets the previous value. */
  readonly timeoutMs?: number
  /** An older value is not returned. */
  readonly maxAgeMs?: number
  readonly now?: () => number
}

/**
 * An expensive read for metrics: runs only when metrics are scraped, and at most once per
 * `minAgeMs`. Returns nothing after a failure or when the last value is too old, because an old
 * value would look current.
 */
export function createCachedReading<T> (
  read: () => Promise<readonly T[]>, options: ReadingOptions
): () => Promise<readonly T[]> {
  const {
    name, log, minAgeMs = 10_000, timeoutMs = 500, maxAgeMs = 30_000, now = () => performance.now(),
  } = options
  let startedMs = -Infinity
  let running: Promise<void> | undefined
  let last: { readonly atMs: number, readonly values: readonly T[] } | undefined
  const start = async () => {
    startedMs = now()
    try {
      last = { values: await read(), atMs: now() }
    } catch (error) {
      last = undefined
      log.warn({ err: error }, `failed to read ${name} for metrics`)
    }
    running = undefined
  }
  return async () => {
    if (running === undefined && now() - startedMs >= minAgeMs) running = start()
    if (running !== undefined) await withTimeout(running, timeoutMs)
    return last === undefined || now() - last.atMs > maxAgeMs ? [] : last.values
  }
}
