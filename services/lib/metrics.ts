import { Counter, Gauge, Histogram, Registry, collectDefaultMetrics } from 'prom-client'
import { METRICS, type MetricDefinition } from './metric-list.ts'

export { METRICS } from './metric-list.ts'

type Metric = typeof METRICS[number]
type Named<T extends Metric['type']> = Extract<Metric, { type: T }>['name']
type LabelsOf<N extends string> = {
  readonly [L in Extract<Metric, { name: N }>['labels'][number]]: string
}

export type Metrics = {
  readonly count: <N extends Named<'counter'>>(name: N, labels: LabelsOf<N>, more?: number) => void
  readonly observe: <N extends Named<'histogram'>>(
    name: N, labels: LabelsOf<N>, seconds: number,
  ) => void
  /** The value is asked for whenever metrics are read, so that it is true while nothing moves. */
  readonly watch: <N extends Named<'gauge'>>(
    name: N, labels: LabelsOf<N>, read: () => number,
  ) => void
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

/** All metrics of the list in one registry; with `process` also those of Node itself. */
export function createMetrics (
  registry: Registry = new Registry(), options: { readonly process?: boolean } = {}
): Metrics {
  const registers = [registry]
  const counters = new Map<string, Counter>()
  const histograms = new Map<string, Histogram>()
  const watches = new Map<string, { labels: object, read: () => number }[]>()
  for (const { name, type, labels: labelNames, help } of METRICS as readonly MetricDefinition[]) {
    const common = { name, help, labelNames, registers }
    if (type === 'counter') counters.set(name, new Counter(common))
    if (type === 'histogram') histograms.set(name, new Histogram({ ...common, buckets: SECONDS }))
    if (type === 'gauge') watches.set(name, watchedGauge(common))
  }
  if (options.process === true) {
    collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: LOOK_MS })
  }
  return {
    count: (name, labels, more = 1) => counters.get(name)?.inc(labels, more),
    observe: (name, labels, seconds) => histograms.get(name)?.observe(labels, seconds),
    watch: (name, labels, read) => watches.get(name)?.push({ labels, read }),
    text: () => registry.metrics(),
    contentType: registry.contentType,
  }
}

function watchedGauge (
  common: { name: string, help: string, labelNames: readonly string[], registers: Registry[] }
): { labels: object, read: () => number }[] {
  const watched: { labels: object, read: () => number }[] = []
  const gauge: Gauge = new Gauge({
    ...common,
    collect: () => { for (const { labels, read } of watched) gauge.set(labels, read()) },
  })
  return watched
}
