import { join } from 'node:path'
import type { Command } from 'commander'
import { count } from '../client/terminal.ts'
import { UsageError } from '../platform/run-command.ts'
import {
  DEFAULT_PARTITIONS, fewestPartitions, parseTopicPartitions, fixedReason, type TopicPartitions,
} from '../platform/topic-partitions.ts'
import { STAGES, topology, type StageName, type TopicName } from '../topology.ts'
import { paintFor, tableText, type Column, type Paint } from '../platform/text-table.ts'
import { callOf, parsePositive, round, type Screen } from './command-line.ts'
import { COST_ROWS, measureCosts, type Costs } from './costs.ts'

type Options = {
  readonly rowsPerSecond: string
  readonly utilization: string
  readonly partitions?: string
  readonly cost?: readonly string[]
}

const ROOT = join(import.meta.dirname, '..', '..')

const HELP = `
Costs are CPU seconds per 100,000 rows: from the newest run in test/bench/results with one process
per stage (npm run bench -- --processes 9 --save) if there is one, else from --cost, else from the
metrics of the running services.

Examples:
  npm run ops -- scale-advice --rows-per-second 50000
  npm run ops -- scale-advice --rows-per-second 50000 --utilization 0.5 --json
  npm run ops -- scale-advice --rows-per-second 50000 --cost verify=3.2 --cost lookup=0.4`

/** Adds `scale-advice`. */
export function addScaleAdvice (program: Command, screen: Screen): void {
  program.command('scale-advice')
    .description('compute instances and partitions for a rate of rows')
    .requiredOption('--rows-per-second <number>', 'the rate, in rows of jobs')
    .option('--utilization <share>', 'share of a core that an instance may use', '0.7')
    .option('--partitions <numbers>', 'as in TOPIC_PARTITIONS; those of services/topology.ts')
    .option('--cost <stage=seconds>', 'CPU seconds per 100,000 rows; repeatable',
      (text: string, before: readonly string[] = []) => [...before, text])
    .addHelpText('after', HELP)
    .action(async (_options: object, command: Command) => {
      const call = callOf<Options>(command)
      const load = {
        rowsPerSecond: parsePositive('--rows-per-second', call.options.rowsPerSecond),
        utilization: parseShare(call.options.utilization),
        partitions: parsePartitions(call.options.partitions),
      }
      const { costs, source } = await measureCosts(call, ROOT)
      const advice = { source, ...adviceFor(costs, load) }
      const paint = paintFor(screen.terminal)
      screen.print(call.json ? JSON.stringify(advice) : adviceText(advice, paint))
    })
}

/** Parses a share of a core. Throws UsageError for any other text. */
export function parseShare (text: string): number {
  const share = parsePositive('--utilization', text)
  if (share <= 1) return share
  throw new UsageError(`--utilization ${text} is not a share of a core (above 0, at most 1).`)
}

/** Parses partitions as TOPIC_PARTITIONS has them. Throws UsageError for any other text. */
export function parsePartitions (text = ''): TopicPartitions {
  try {
    return parseTopicPartitions(text)
  } catch (error) {
    throw new UsageError(`--partitions ${text}: ${(error as Error).message}.`)
  }
}

/** What a stage needs for a rate. */
export type StageAdvice = {
  readonly stage: StageName
  readonly cpuSecondsPer100kRows: number
  /** Cores that are fully used at the requested rate. */
  readonly cores: number
  readonly instances: number
  /** Topics with fewer partitions than instances: further instances would be idle. */
  readonly limitedBy: readonly TopicName[]
}

/** The partitions that the instances of all readers of a topic need. */
export type TopicAdvice = {
  readonly topic: TopicName
  readonly readBy: readonly StageName[]
  readonly partitions: number
  readonly needed: number
}

type Advice = {
  readonly rowsPerSecond: number
  readonly utilization: number
  readonly stages: readonly StageAdvice[]
  /** Stages without known costs. */
  readonly unknown: readonly StageName[]
  readonly topics: readonly TopicAdvice[]
  /** Components that do not scale with instances of stages, and their cores. */
  readonly others: readonly { readonly name: string, readonly cores: number }[]
  readonly instances: number
  /** Total of all stages and other components. */
  readonly cores: number
}

/** Advice with the source of its costs. */
export type SourcedAdvice = Advice & { readonly source: string }

type Load = {
  readonly rowsPerSecond: number
  readonly utilization: number
  /** Those of services/topology.ts by default. */
  readonly partitions?: TopicPartitions
}

/**
 * Computes instances and partitions for a rate. An instance uses one thread, so it counts as one
 * core, of which it uses the share `utilization` to keep room for peaks. All rows may belong to one
 * lane and one service, so every topic needs a partition for each instance.
 */
export function adviceFor (
  costs: Costs, { rowsPerSecond, utilization, partitions = DEFAULT_PARTITIONS }: Load
): Advice {
  const partitionsOf = (topic: TopicName) => fewestPartitions(partitions, topic)
  const coresOf = (name: string) => (costs[name] ?? 0) * rowsPerSecond / COST_ROWS
  const known = STAGES.filter(stage => costs[stage] !== undefined)
  const stages = known.map(stage => {
    const instances = instancesFor(coresOf(stage), utilization)
    const limitedBy = limitingTopics(stage).filter(topic => partitionsOf(topic) < instances)
    const cpuSecondsPer100kRows = round(costs[stage] ?? 0, 3)
    return {
      stage, cpuSecondsPer100kRows, cores: round(coresOf(stage), 3), instances, limitedBy,
    }
  })
  const isStage = (name: string) => STAGES.some(stage => stage === name)
  const others = Object.keys(costs).filter(name => !isStage(name))
    .map(name => ({ name, cores: round(coresOf(name), 3) }))
  return {
    rowsPerSecond,
    utilization,
    stages,
    unknown: STAGES.filter(stage => costs[stage] === undefined),
    topics: topicsOf(stages, partitionsOf),
    others,
    instances: stages.reduce((sum, { instances }) => sum + instances, 0),
    cores: round([...stages, ...others].reduce((sum, { cores }) => sum + cores, 0), 3),
  }
}

/** The number of instances, each with one thread, that keep so many cores busy. */
export function instancesFor (cores: number, utilization: number): number {
  return Math.max(1, Math.ceil(round(cores / utilization, 6)))
}

/** The topics that the stages read. */
function topicsOf (
  stages: readonly StageAdvice[], partitionsOf: (topic: TopicName) => number
): readonly TopicAdvice[] {
  return (Object.keys(topology.topics) as TopicName[]).flatMap(topic => {
    const readers = stages.filter(({ stage }) => limitingTopics(stage).includes(topic))
    if (readers.length === 0) return []
    const partitions = partitionsOf(topic)
    const needed = Math.max(partitions, ...readers.map(({ instances }) => instances))
    return [{ topic, readBy: readers.map(({ stage }) => stage), partitions, needed }]
  })
}

/**
 * The topics whose partitions limit a stage: all that it reads, except a retry topic that only the
 * stage itself writes. Retry topics have few partitions on purpose.
 */
export function limitingTopics (stage: StageName): readonly TopicName[] {
  const reads: readonly TopicName[] = topology.stages[stage].reads
  return reads.filter(topic => writersOf(topic).join() !== stage)
}

function writersOf (topic: TopicName): readonly StageName[] {
  return STAGES.filter(stage =>
    (topology.stages[stage].writes as readonly TopicName[]).includes(topic))
}

const STAGE_COLUMNS: readonly Column[] = [
  { title: 'stage' }, { title: 'CPU s / 100,000 rows', right: true },
  { title: 'cores', right: true }, { title: 'instances', right: true }, { title: 'limited by' },
]

const TOPIC_COLUMNS: readonly Column[] = [
  { title: 'topic' }, { title: 'partitions', right: true }, { title: 'needed', right: true },
  { title: 'read by' },
]

/** Formats the advice: a table of stages, one of topics, required changes and limits. */
export function adviceText (advice: SourcedAdvice, paint: Paint): string {
  const { rowsPerSecond, utilization, source, stages, topics } = advice
  const percent = Math.round(100 * utilization)
  return [
    `For ${count(rowsPerSecond)} rows/s at ${percent} % utilization of one core per instance; ` +
      `costs from ${source}.`,
    tableText(STAGE_COLUMNS, stages.map(stageCells), paint),
    tableText(TOPIC_COLUMNS, topics.map(topicCells), paint),
    [...changeLines(topics), ...limitLines(advice)].join('\n'),
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

function changeLines (topics: readonly TopicAdvice[]): readonly string[] {
  const short = topics.filter(({ partitions, needed }) => needed > partitions)
  if (short.length === 0) return ['All topics have enough partitions.']
  const fixed = short.filter(({ topic }) => fixedReason(topic) !== undefined)
  const setting = short.filter(one => !fixed.includes(one))
    .map(({ topic, needed }) => `${topic}=${needed}`).join(',')
  return [
    `Too few partitions: ${short.map(({ topic, needed }) => `${topic} ${needed}`).join(', ')}.`,
    ...setting === ''
      ? []
      : ['Add them at any time, also under load, and then instances:',
        `TOPIC_PARTITIONS=${setting} npm run provision`],
    ...fixed.map(({ topic }) => `${topic} cannot grow: ${fixedReason(topic)}.`),
  ]
}

function limitLines ({ others, unknown, instances, cores }: Advice): readonly string[] {
  const components = others.map(({ name, cores }) => `${name} ${cores.toFixed(2)}`)
  const shares = components.length === 0
    ? 'Redis, ClickHouse and Kafka also need cores, which these costs do not include.'
    : `Not scaled by instances, in cores: ${components.join(', ')}.`
  return [
    ...unknown.length === 0 ? [] : [`Unknown costs: ${unknown.join(', ')}.`],
    shares,
    'A Redis instance uses one core for its commands: near 1.0 it is the bottleneck.',
    'One partition of lookup aggregates a job; more partitions help several jobs at once.',
    `Total: ${count(instances)} instances, ${cores.toFixed(2)} busy cores.`,
  ]
}
