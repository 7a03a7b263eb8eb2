import { count } from '../../client/terminal.ts'
import type { Paint } from '../screen.ts'
import { tableText, type Column } from '../table.ts'
import type { Advice, StageAdvice, TopicAdvice } from './advice.ts'

/** An advice, and where its costs are from. */
export type Sourced = Advice & { readonly source: string }

const STAGE_COLUMNS: readonly Column[] = [
  { title: 'stage' }, { title: 'CPU s / 100,000 rows', right: true },
  { title: 'cores', right: true }, { title: 'instances', right: true }, { title: 'limited by' },
]

const TOPIC_COLUMNS: readonly Column[] = [
  { title: 'topic' }, { title: 'partitions', right: true }, { title: 'needed', right: true },
  { title: 'read by' },
]

/** The advice for people: a table of stages, one of topics, what to change and what stays. */
export function adviceText (advice: Sourced, paint: Paint): string {
  const { rowsPerSecond, utilization, source, stages, topics } = advice
  const share = Math.round(100 * utilization)
  return [
    `For ${count(rowsPerSecond)} rows/s, each instance one core, ${share} % of it used; costs ` +
      `from ${source}.`,
    tableText(STAGE_COLUMNS, stages.map(stageCells), paint),
    tableText(TOPIC_COLUMNS, topics.map(topicCells), paint),
    [...changes(topics), ...standing(advice)].join('\n'),
  ].join('\n\n')
}

function stageCells (one: StageAdvice) {
  const { stage, cpuSecondsPer100kRows, cores, instances, limitedBy } = one
  const limits = limitedBy.join(', ')
  return [
    stage, cpuSecondsPer100kRows.toFixed(2), cores.toFixed(2), String(instances),
    limits === '' ? '-' : { text: limits, style: 'red' as const },
  ]
}

function topicCells ({ topic, partitions, needed, readBy }: TopicAdvice) {
  const more = { text: String(needed), style: 'yellow' as const }
  return [
    topic, String(partitions), needed > partitions ? more : String(needed), readBy.join(', '),
  ]
}

function changes (topics: readonly TopicAdvice[]): readonly string[] {
  const short = topics.filter(({ partitions, needed }) => needed > partitions)
  if (short.length === 0) return ['The partitions suffice.']
  return [
    `Too few partitions: ${short.map(({ topic, needed }) => `${topic} ${needed}`).join(', ')}.`,
    'Keys are spread by their number, so it is changed while nothing is under way: stop ingest ' +
      'and feed,',
    '"npm run ops -- drain", set the numbers in services/topology.ts, add partitions at the ' +
      'brokers to every',
    'topic of that name (kafka-topics --alter --partitions), "npm run provision", start anew.',
  ]
}

function standing ({ others, unknown, instances, cores }: Advice): readonly string[] {
  const parts = others.map(({ name, cores }) => `${name} ${cores.toFixed(2)}`)
  const shares = parts.length === 0
    ? 'Redis, ClickHouse and Kafka have their shares, too, which these costs do not tell.'
    : `Not scaled by this, in cores: ${parts.join(', ')}.`
  return [
    ...unknown.length === 0 ? [] : [`No cost is known of ${unknown.join(', ')}.`],
    shares,
    'A Redis runs its commands on one core: near 1.0 it is the limit, whatever is added ' +
      'elsewhere.',
    'One job is gathered by one partition of lookup; more of them help several jobs at once.',
    `In all ${count(instances)} instances, ${cores.toFixed(2)} cores busy.`,
  ]
}
