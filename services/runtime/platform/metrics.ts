import { lookup } from 'node:dns/promises'
import { readFile } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client'
import type { Log } from './log.ts'
import { listInitialSeries, type MetricDefinition, METRICS } from './metric-list.ts'
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
      for (const labels of services.flatMap(service => listInitialSeries(definition, service))) {
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

/** One sample of a metric in the text format of Prometheus. */
export type Sample = {
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/
const LABEL = /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g

/** Parses the samples of some metrics from the text format of Prometheus. */
function readSamples (
  text: string, names: ReadonlySet<string>
): readonly Sample[] {
  return text.split('\n').flatMap(line => {
    const [, name = '', labelText = '', value = ''] = LINE.exec(line) ?? []
    if (!names.has(name)) return []
    const labels = Object.fromEntries([...labelText.matchAll(LABEL)]
      .map(([, label = '', text = '']) =>
        [label, text.replace(/\\(.)/g, (_all, sign: string) => sign === 'n' ? '\n' : sign)]))
    return [{ name, labels, value: Number(value) }]
  })
}

type FetchOptions = {
  /** Names of the metrics to return. */
  readonly names: ReadonlySet<string>
  readonly timeoutMs: number
  /** Replaced in tests. */
  readonly fetch?: typeof globalThis.fetch | undefined
}

/** The samples at a URL; undefined after a timeout or an error. */
export async function fetchSamples (
  target: string, { names, timeoutMs, fetch = globalThis.fetch }: FetchOptions
): Promise<readonly Sample[] | undefined> {
  try {
    const answer = await fetch(target, { signal: AbortSignal.timeout(timeoutMs) })
    return answer.ok ? readSamples(await answer.text(), names) : undefined
  } catch {
    return undefined
  }
}

/** The URLs of metrics in a file, a JSON array; none while the file is missing or invalid. */
export async function readMetricsTargets (file: string): Promise<readonly string[]> {
  try {
    const targets: unknown = JSON.parse(await readFile(file, 'utf8'))
    return Array.isArray(targets) ? targets.map(String) : []
  } catch {
    return []
  }
}

/** All addresses of a host name, in the order of the resolver; replaced in tests. */
export type LookUp = (
  host: string
) => Promise<readonly { readonly address: string, readonly family: number }[]>

const LOOKUP_TIMEOUT_MS = 2_000

/**
 * Replaces each URL whose host has several addresses by one URL per address: a headless service in
 * Kubernetes resolves to all of its pods, and a service in Compose to all of its containers, while
 * a request by name reaches only one of them. A URL stays unchanged if its host has one address, if
 * the lookup fails or takes two seconds, and for HTTPS, as certificates are for names.
 */
export async function resolveAllAddresses (
  targets: readonly string[], find: LookUp = lookUp
): Promise<readonly string[]> {
  return (await Promise.all(targets.map(async target => await spread(target, find)))).flat()
}

async function spread (target: string, find: LookUp): Promise<readonly string[]> {
  if (!target.startsWith('http://') || !URL.canParse(target)) return [target]
  const url = new URL(target)
  const addresses = await find(url.hostname).catch(() => [])
  // A dual-stack host has one address per family.
  const sameFamily = addresses.filter(({ family }) => family === addresses[0]?.family)
  if (sameFamily.length < 2) return [target]
  return sameFamily.map(({ address, family }) => {
    url.hostname = family === 6 ? `[${address}]` : address
    return url.href
  }).toSorted()
}

const lookUp: LookUp = async host =>
  await Promise.race([
    lookup(host, { all: true }), delay(LOOKUP_TIMEOUT_MS, [], { ref: false }),
  ])
