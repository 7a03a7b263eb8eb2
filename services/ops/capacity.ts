import type { Command } from 'commander'
import { count } from '../client/terminal.ts'
import { UsageError } from '../platform/run-command.ts'
import {
  DEFAULT_PARTITIONS, fewestPartitions, fixedReason, type TopicPartitions,
} from '../platform/topic-partitions.ts'
import { STAGES, topology, type TopicName } from '../topology.ts'
import { paintFor, tableText, type Column, type Paint } from '../platform/text-table.ts'
import { callOf, parseInteger, parsePositive, round, type Screen } from './command-line.ts'
import { COST_ROWS } from './costs.ts'
import {
  CPU_COSTS, FIGURES, RESULT_DAYS, TABLE_BYTES, TOPIC_BYTES, type Component, type Store,
} from './measured-costs.ts'
import {
  adviceFor, instancesFor, limitingTopics, parsePartitions, parseShare, type StageAdvice,
  type TopicAdvice,
} from './scale-advice.ts'

const TOPICS = Object.keys(TOPIC_BYTES) as readonly (keyof typeof TOPIC_BYTES)[]
const COMPONENTS = Object.keys(CPU_COSTS) as readonly Component[]
/** All stages that rows of the API pass; `feed` has those of partners. */
const LIMITED = STAGES.filter(stage => stage !== 'feed')
const MORE = 'more instances'
const DAY_SECONDS = 86_400
const CLOSED_JOB_SECONDS = 600
/** How often the search for the load of a limit halves its interval. */
const HALVINGS = 50

const HELP = `
Computes from the measured costs of services/ops/measured-costs.ts; no service has to run. Assumes
that all rows are fresh and of one lane and service, and that every job sends one webhook.

Examples:
  npm run ops -- capacity --rows-per-second 50000 --jobs-per-second 500
  npm run ops -- capacity --rows-per-second 140 --jobs-per-second 140 --cores 2 --replication 1`

type Options = Readonly<Record<
  'rowsPerSecond' | 'jobsPerSecond' | 'utilization' | 'replication', string>> &
  { readonly cores?: string, readonly partitions?: string }

/** Adds `capacity`. */
export function addCapacity (program: Command, screen: Screen): void {
  program.command('capacity')
    .description('compute what a load needs, and which limit it reaches first')
    .requiredOption('--rows-per-second <number>', 'the rate, in rows of jobs')
    .requiredOption('--jobs-per-second <number>', 'the rate of the jobs that contain these rows')
    .option('--utilization <share>', 'share of a core that an instance or a Redis may use', '0.7')
    .option('--replication <number>', 'replicas of each topic', '3')
    .option('--partitions <numbers>', 'as in TOPIC_PARTITIONS; those of services/topology.ts')
    .option('--cores <number>', 'cores of the machine, if everything runs on one')
    .addHelpText('after', HELP)
    .action((_options: object, command: Command) => {
      const { json, options } = callOf<Options>(command)
      const plan = planCapacity(parseInstallation(options))
      screen.print(json ? JSON.stringify(plan) : capacityText(plan, paintFor(screen.terminal)))
    })
}

/** A load, and what is known of the machines. */
export type Installation = {
  readonly rowsPerSecond: number
  readonly jobsPerSecond: number
  /** The share of a core that an instance or a Redis may use. */
  readonly utilization: number
  /** Replicas of each topic. */
  readonly replication: number
  /** Of topics; those of services/topology.ts by default. */
  readonly partitions?: TopicPartitions
  /** Cores of the machine, if everything runs on one. */
  readonly cores?: number
}

function parseInstallation (options: Options): Installation {
  const rowsPerSecond = parsePositive('--rows-per-second', options.rowsPerSecond)
  const jobsPerSecond = parsePositive('--jobs-per-second', options.jobsPerSecond)
  if (rowsPerSecond < jobsPerSecond) {
    throw new UsageError(`--rows-per-second ${rowsPerSecond} is below --jobs-per-second ` +
      `${jobsPerSecond}. A job has at least one row.`)
  }
  const replication = parseInteger('--replication', options.replication)
  return {
    rowsPerSecond,
    jobsPerSecond,
    utilization: parseShare(options.utilization),
    replication: parsePositive('--replication', String(replication)),
    ...options.partitions !== undefined && { partitions: parsePartitions(options.partitions) },
    ...options.cores !== undefined && { cores: parsePositive('--cores', options.cores) },
  }
}

/** The load at which a part is fully used, with the same number of rows per job. */
type Limit = {
  readonly limit: string
  readonly rowsPerSecond: number
  readonly jobsPerSecond: number
  readonly isReached: boolean
  /** What raises the limit. */
  readonly next: string
}

type StoreNeeds = {
  readonly store: Store
  readonly cores: number
  readonly needs:
  readonly { readonly amount: number, readonly unit: string, readonly what: string }[]
}

/** What an installation needs. */
export type CapacityPlan = Omit<Installation, 'partitions'> & {
  /** In the order in which a growing load reaches them. */
  readonly limits: readonly Limit[]
  readonly stages: readonly Omit<StageAdvice, 'cpuSecondsPer100kRows'>[]
  readonly topics: readonly TopicAdvice[]
  readonly stores: readonly StoreNeeds[]
  readonly totalCores: number
}

/** Computes what an installation needs, and the load at which each of its parts is a limit. */
export function planCapacity (installation: Installation): CapacityPlan {
  const { partitions = DEFAULT_PARTITIONS, ...load } = installation
  const { rowsPerSecond, utilization } = load
  const of = coresOf(installation)
  const costs = Object.fromEntries(COMPONENTS.map(name =>
    [name, of[name] * COST_ROWS / rowsPerSecond]))
  const { stages, topics } = adviceFor(costs, { rowsPerSecond, utilization, partitions })
  return {
    ...load,
    limits: limitsOf(installation),
    stages: stages.map(({ cpuSecondsPer100kRows: _, ...stage }) => stage),
    topics,
    stores: storesOf(installation, of),
    totalCores: round(totalOf(of), 3),
  }
}

type Cores = Readonly<Record<Component, number>>

const totalOf = (cores: Cores) => COMPONENTS.reduce((sum, name) => sum + cores[name], 0)
const amountOf = ({ rowsPerSecond, jobsPerSecond }: Installation) =>
  ({ row, job }: { readonly row: number, readonly job: number }) =>
    rowsPerSecond * row + jobsPerSecond * job

/** The cores that each component keeps busy. */
function coresOf (installation: Installation): Cores {
  const amount = amountOf(installation)
  const cores = Object.fromEntries(COMPONENTS.map(name => {
    const { row, job } = CPU_COSTS[name]
    return [name, amount({ row: row / 1e6, job: job / 1e3 })]
  })) as Record<Component, number>
  const inserts = insertsPerSecond(installation, cores.settle) * FIGURES.insertMs.value / 1e3
  return { ...cores, clickhouse: cores.clickhouse + inserts }
}

/** Inserts of small jobs: each instance of `settle` stores those of a tenth of a second. */
function insertsPerSecond (
  { jobsPerSecond, utilization }: Installation, settleCores: number
): number {
  const instances = instancesFor(settleCores, utilization)
  return Math.min(jobsPerSecond, FIGURES.insertsPerSecond.value * instances)
}

/** A part that can be fully used: by so many cores. */
type Part = Pick<Limit, 'limit' | 'next'> &
  { readonly full: number, readonly used: (cores: Cores) => number }

function partsOf (
  { utilization, cores, partitions = DEFAULT_PARTITIONS }: Installation
): readonly Part[] {
  const partitionsOf = (topic: TopicName) => fewestPartitions(partitions, topic)
  const thread = (name: Component, limit: string, next: string): Part =>
    ({ limit, next, full: utilization, used: cores => cores[name] })
  const partitioned = LIMITED.filter(stage => limitingTopics(stage).length > 0).map(stage => {
    const fewest = Math.min(...limitingTopics(stage).map(partitionsOf))
    const topics = limitingTopics(stage).filter(topic => partitionsOf(topic) === fewest)
    const isFixed = topics.some(topic => fixedReason(topic) !== undefined)
    const next = `more partitions of ${topics.join(', ')}${isFixed ? ': fixed once created' : ''}`
    return { ...thread(stage, `${fewest} instances of ${stage}`, next), full: fewest * utilization }
  })
  return [
    ...LIMITED.map(stage => thread(stage, `1 instance of ${stage}`, MORE)),
    ...partitioned,
    thread('webhooks', '1 instance of deliver sending webhooks', MORE),
    thread('redis-cache', '1 cache Redis', 'a cluster for the cache'),
    thread('redis-state', '1 state Redis', 'a cluster for the state (cells)'),
    ...cores === undefined
      ? []
      : [{ limit: `${cores} cores`, next: 'more machines', full: cores, used: totalOf }],
  ]
}

function limitsOf (installation: Installation): readonly Limit[] {
  return partsOf(installation).map(({ limit, next, full, used }) => {
    const factor = factorAt(factor => used(coresOf(scaled(installation, factor))) >= full)
    const { rowsPerSecond, jobsPerSecond } = scaled(installation, factor)
    return { limit, rowsPerSecond, jobsPerSecond, isReached: factor <= 1, next }
  }).toSorted((a, b) => a.rowsPerSecond - b.rowsPerSecond)
}

const scaled = (installation: Installation, factor: number): Installation => ({
  ...installation,
  rowsPerSecond: installation.rowsPerSecond * factor,
  jobsPerSecond: installation.jobsPerSecond * factor,
})

/** The smallest factor of a load that is full, if all greater ones are. */
function factorAt (isFull: (factor: number) => boolean): number {
  let [low, high] = [0, 1]
  while (!isFull(high)) [low, high] = [high, high * 2]
  for (let step = 0; step < HALVINGS; step++) {
    const middle = (low + high) / 2
    if (isFull(middle)) high = middle
    else low = middle
  }
  return high
}

function storesOf (installation: Installation, cores: Cores): readonly StoreNeeds[] {
  const { rowsPerSecond: rows, jobsPerSecond: jobs } = installation
  const { closedJobBytes, idempotencyKeyBytes, cacheEntryBytes, appendBytes } = FIGURES
  const need = (amount: number, unit: string, what: string) =>
    ({ amount: round(amount, 3), unit, what })
  const gb = (bytes: number, what: string) => need(bytes / 1e9, ' GB', what)
  const mb = (bytes: number, what: string) => need(bytes / 1e6, ' MB/s', what)
  const amount = amountOf(installation)
  const results = amount(TABLE_BYTES.results) * DAY_SECONDS
  const kafka = (secondsOf: (keepHours: number) => number) => installation.replication *
    TOPICS.reduce((sum, topic) =>
      sum + amount(TOPIC_BYTES[topic]) * secondsOf(topology.topics[topic].keepHours), 0)
  const needs: Readonly<Record<Store, StoreNeeds['needs']>> = {
    webhooks: [
      need(instancesFor(cores.webhooks, installation.utilization), '', 'instances of deliver'),
      need(jobs, '/s', 'webhooks'),
    ],
    'redis-cache': [
      gb(rows * cacheEntryBytes.value * DAY_SECONDS, 'memory for fresh rows of a day'),
    ],
    'redis-state': [
      need(jobs * FIGURES.stateCommands.value, '/s', 'commands'),
      mb(jobs * appendBytes.value, 'appended to its file'),
      need(jobs * appendBytes.value / FIGURES.appendGroupBytes.value, '/s', 'fsync at most'),
      gb(jobs * closedJobBytes.value * CLOSED_JOB_SECONDS, 'memory for closed jobs'),
      gb(jobs * idempotencyKeyBytes.value * DAY_SECONDS, 'memory for idempotency keys'),
    ],
    kafka: [
      mb(kafka(() => 1), 'in'),
      gb(kafka(hours => Math.max(0, hours) * 3_600), 'on disk for the retentions'),
      gb(kafka(hours => hours < 0 ? DAY_SECONDS : 0), 'of journal a day, kept'),
    ],
    clickhouse: [
      need(insertsPerSecond(installation, cores.settle), '/s', 'inserts of small jobs'),
      gb(results, 'results a day'),
      gb(results * RESULT_DAYS, `results of ${RESULT_DAYS} days`),
      gb(amount(TABLE_BYTES.history) * DAY_SECONDS, 'history a day, kept'),
    ],
  }
  return (Object.keys(needs) as Store[]).map(store =>
    ({ store, cores: round(cores[store], 3), needs: needs[store] }))
}

const STAGE_COLUMNS: readonly Column[] = [
  { title: 'stage' }, { title: 'cores', right: true }, { title: 'instances', right: true },
  { title: 'too few partitions of' },
]
const STORE_COLUMNS: readonly Column[] = [
  { title: 'store' }, { title: 'cores', right: true }, { title: 'needs', right: true },
  { title: '' },
]
const LIMIT_COLUMNS: readonly Column[] = [
  { title: 'limit' }, { title: 'rows/s', right: true }, { title: 'jobs/s', right: true },
  { title: 'now' }, { title: 'next step' },
]

const amountText = (number: number) => number < 10 ? String(round(number, 2)) : count(number)

/** Formats a plan: the first limits, what stages, topics and stores need, and all limits. */
export function capacityText (plan: CapacityPlan, paint: Paint): string {
  const { limits, stages, topics, stores } = plan
  const short = topics.filter(({ partitions, needed }) => needed > partitions)
    .map(({ topic, partitions, needed }) => `${topic} ${count(needed)} (now ${partitions})`)
  return [
    summaryText(plan),
    tableText(STAGE_COLUMNS, stages.map(({ stage, cores, instances, limitedBy }) =>
      [stage, cores.toFixed(2), count(instances), limitedBy.join(', ') || '-']), paint),
    'Partitions that all instances need, per lane and service:\n' +
      `${short.join('\n') || 'no more than there are'}`,
    tableText(STORE_COLUMNS, stores.flatMap(({ store, cores, needs }) =>
      needs.map(({ amount, unit, what }, index) => [
        ...index === 0 ? [store, cores.toFixed(2)] : ['', ''],
        `${amountText(amount)}${unit}`, what,
      ])), paint),
    tableText(LIMIT_COLUMNS, limits.map(({ limit, next, isReached, ...load }) => [
      limit, amountText(load.rowsPerSecond), amountText(load.jobsPerSecond),
      isReached ? { text: 'reached', style: 'red' as const } : '-', next,
    ]), paint),
  ].join('\n\n')
}

function summaryText ({ limits, totalCores, utilization, ...load }: CapacityPlan): string {
  const at = ({ rowsPerSecond, jobsPerSecond }: Pick<Limit, 'rowsPerSecond' | 'jobsPerSecond'>) =>
    `${amountText(rowsPerSecond)} rows/s in ${amountText(jobsPerSecond)} jobs/s`
  const notable = {
    'First limit': limits[0],
    'First that more instances do not raise': limits.find(({ next }) => next !== MORE),
    'First above this load': limits.find(({ isReached }) => !isReached),
  }
  return [
    `For ${at(load)} at ${Math.round(100 * utilization)} % utilization of a core per instance: ` +
      `${totalCores.toFixed(1)} busy cores.`,
    ...Object.entries(notable).map(([title, limit]) => limit === undefined
      ? `${title}: none.`
      : `${title}: ${limit.limit}, at ${at(limit)}. Next step: ${limit.next}.`),
  ].join('\n')
}
