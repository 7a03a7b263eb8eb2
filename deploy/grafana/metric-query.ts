import {
  METRICS, type MetricDefinition, type PanelLook,
} from '../../services/runtime/platform/metric-list.ts'

/** What a panel shows of a metric; how it is asked for follows from the metric's type. */
export type Shown = { readonly metric: string } &
  Pick<PanelLook, 'by' | 'where' | 'sum' | 'inAll'>

type Query = { readonly expr: string, readonly legend: string }
export type Asked = {
  readonly queries: readonly Query[], readonly unit: string, readonly help: string
}

type Metric = Pick<MetricDefinition, 'name' | 'type' | 'labels' | 'help'>

/** The metrics of every Node process (prom-client) that are shown. */
const PROCESS_METRICS = [
  {
    name: 'process_cpu_seconds_total',
    type: 'counter',
    labels: [],
    help: 'Processor time: 1 is one core.',
  },
  {
    name: 'process_resident_memory_bytes',
    type: 'gauge',
    labels: [],
    help: 'Memory that the process holds.',
  },
  {
    name: 'nodejs_heap_size_used_bytes',
    type: 'gauge',
    labels: [],
    help: 'Memory that objects need.',
  },
  {
    name: 'nodejs_eventloop_lag_p90_seconds',
    type: 'gauge',
    labels: [],
    help: 'Pauses between two turns of the event loop, which are 0.1 s when nothing is late.',
  },
  {
    name: 'nodejs_eventloop_lag_seconds',
    type: 'gauge',
    labels: [],
    help: 'How late the event loop was when metrics were read.',
  },
  {
    name: 'nodejs_gc_duration_seconds',
    type: 'histogram',
    labels: ['kind'],
    help: 'Duration of collections of garbage.',
  },
  {
    name: 'process_start_time_seconds',
    type: 'gauge',
    labels: [],
    help: 'When the process started.',
  },
] as const satisfies readonly Metric[]

const definitions = new Map<string, Metric>(
  [...METRICS, ...PROCESS_METRICS].map(metric => [metric.name, metric]))

const QUANTILES = [0.5, 0.95, 0.99]
const MICROS_A_DOLLAR = 1_000_000

/**
 * The queries, unit and description of what is shown.
 * @throws RangeError when there is no such metric, or it has no such label.
 */
export function askFor (shown: Shown): Asked {
  const { metric, by = [], where = '' } = shown
  const definition = definitions.get(metric)
  if (definition === undefined) throw new RangeError(`there is no metric ${metric}`)
  const { type, labels, help } = definition
  // Those that every scraped series has.
  const strange = by.filter(label => !['job', 'instance', ...labels].includes(label))
  if (strange.length > 0) throw new RangeError(`${metric} has no label ${strange.join(', ')}`)
  const selector = where === '' ? metric : `${metric}{${where}}`
  const group = by.length === 0 ? '' : ` by (${by.join(', ')})`
  const legend = by.map(label => `{{${label}}}`).join(' ')
  if (type === 'histogram') return { queries: quantiles(metric, where, by), unit: 's', help }
  const value = type === 'gauge'
    ? `${shown.sum === true ? 'sum' : 'max'}${group} (${selector})`
    : `sum${group} (${shown.inAll === true ? 'increase' : 'rate'}(${selector}[${range(shown)}]))`
  const expr = metric.includes('_micros') ? `${value} / ${MICROS_A_DOLLAR}` : value
  const queries = [{ expr, legend: legend === '' ? formatTitle(metric) : legend }]
  return { queries, unit: chooseUnit(shown, type), help }
}

const range = ({ inAll }: Shown) => inAll === true ? '$__range' : '$__rate_interval'

function quantiles (metric: string, where: string, by: readonly string[]): readonly Query[] {
  const selector = where === '' ? `${metric}_bucket` : `${metric}_bucket{${where}}`
  const labels = by.map(label => ` {{${label}}}`).join('')
  return QUANTILES.map(quantile => ({
    expr: `histogram_quantile(${quantile}, sum by (${['le', ...by].join(', ')}) ` +
      `(rate(${selector}[$__rate_interval])))`,
    legend: `p${quantile * 100}${labels}`,
  }))
}

function chooseUnit ({ metric, inAll }: Shown, type: string): string {
  if (metric.includes('_micros')) return 'currencyUSD'
  if (metric.endsWith('_bytes')) return 'bytes'
  if (type === 'gauge') return metric.endsWith('_seconds') ? 's' : 'short'
  if (inAll === true || metric.endsWith('_seconds_total')) return 'short'
  if (metric.startsWith('http_')) return 'reqps'
  return metric === 'stage_rows_total' ? 'suffix: rows/s' : 'ops'
}

const formatTitle = (metric: string) => metric.replace(/_total$/, '').replaceAll('_', ' ')
