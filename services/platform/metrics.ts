import { Counter, Gauge, Histogram, Registry, collectDefaultMetrics } from 'prom-client'
import type { MetricDefinition } from './metric-definition.ts'
import { METRICS } from './metric-list.ts'
import { zerosOf } from './metric-sources.ts'

export { METRICS } from './metric-list.ts'

type Metric = typeof METRICS[number]
type Named<T extends Metric['type']> = Extract<Metric, { type: T }>['name']
type LabelsOf<N extends string> = {
  readonly [L in Extract<Metric, { name: N }>['labels'][number]]: string
}

/** A value of a gauge under its labels. */
export type Series<L> = { readonly labels: L, readonly value: number }

type Reading<L> = () => Promise<readonly Series<L>[]>

export type Metrics = {
  readonly count: <N extends Named<'counter'>>(name: N, labels: LabelsOf<N>, more?: number) => void
  readonly observe: <N extends Named<'histogram'>>(
    name: N, labels: LabelsOf<N>, seconds: number,
  ) => void
  /** The value is asked for whenever metrics are read, so that it is true while nothing moves. */
  readonly watch: <N extends Named<'gauge'>>(
    name: N, labels: LabelsOf<N>, read: () => number,
  ) => void
  /**
   * Like `watch`, for series that are not known before; all of the metric come from one reading,
   * and those it leaves out are not told. It never rejects.
   */
  readonly watchAll: <N extends Named<'gauge'>>(name: N, read: Reading<LabelsOf<N>>) => void
  /** The text that Prometheus reads, and its content type. */
  readonly text: () => Promise<string>
  readonly contentType: string
}

const SECONDS = [0.001, 0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]
/**
 * How often the delay of the event loop is looked at: ten times as often would be most of what an
 * idle process does. The runtime's figures are pauses between two looks, so they begin at this.
 */
const LOOK_MS = 100

/**
 * All metrics of the list in one registry. With `process`, the name of the service, also those of
 * Node itself, and the series that the service begins with.
 */
export function createMetrics (
  registry: Registry = new Registry(), options: { readonly process?: string } = {}
): Metrics {
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
  if (options.process !== undefined) {
    collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: LOOK_MS })
    beginAtZero(options.process, counters, histograms)
  }
  return {
    count: (name, labels, more = 1) => counters.get(name)?.inc(labels, more),
    observe: (name, labels, seconds) => histograms.get(name)?.observe(labels, seconds),
    watch: (name, labels, read) => watches.get(name)?.single.push({ labels, read }),
    watchAll: (name, read) => watches.get(name)?.together.push(read),
    text: () => registry.metrics(),
    contentType: registry.contentType,
  }
}

function beginAtZero (
  process: string, counters: ReadonlyMap<string, Counter>,
  histograms: ReadonlyMap<string, Histogram>
): void {
  for (const definition of METRICS) {
    for (const labels of zerosOf(definition, process)) {
      counters.get(definition.name)?.inc(labels, 0)
      histograms.get(definition.name)?.zero(labels)
    }
  }
}

type Watched = {
  readonly single: { readonly labels: object, readonly read: () => number }[]
  readonly together: Reading<object>[]
}

function watchedGauge (
  common: { name: string, help: string, labelNames: readonly string[], registers: Registry[] }
): Watched {
  const watched: Watched = { single: [], together: [] }
  const collect = async () => {
    const found = (await Promise.all(watched.together.map(read => read()))).flat()
    // What is not told any more, a group that is gone for example, must not stay for ever.
    if (watched.together.length > 0) {
      gauge.reset()
      // One without labels would be set to 0 by that.
      if (common.labelNames.length === 0) gauge.remove()
    }
    for (const { labels, value } of found) gauge.set(labels, value)
    for (const { labels, read } of watched.single) gauge.set(labels, read())
  }
  const gauge: Gauge = new Gauge({ ...common, collect })
  return watched
}
