import {
  fetchSamples, type LookUp, readMetricsTargets, resolveAllAddresses, type Sample,
} from '../../runtime/platform/metrics.ts'
import type { METRICS } from '../../runtime/platform/metric-list.ts'
import { logicalTopic } from '../../runtime/platform/topics.ts'
import { STAGES, type StageName, topology, type TopicName } from '../../topology.ts'

/** The figures of the pipeline, and how many metrics endpoints did not answer. */
export type PipelineStatus = {
  readonly figures: Figures
  /** The latest metrics of all services, for the other pages of operators. */
  readonly samples: readonly Sample[]
  readonly targets: number
  readonly unreachable: number
}

/** Why figures are missing: no process is known, or some do not answer; '' if all do. */
export function missingText ({ targets, unreachable }: PipelineStatus): string {
  if (targets === 0) {
    return 'No metrics endpoint is configured: set METRICS_TARGETS or METRICS_TARGETS_FILE.'
  }
  return unreachable > 0 ? `${unreachable} of ${targets} processes do not answer.` : ''
}

type Options = {
  readonly targets: readonly string[]
  /** JSON file with further targets; '' for none. */
  readonly targetsFile: string
  /** Tests pass doubles. */
  readonly fetch?: typeof globalThis.fetch
  readonly find?: LookUp
  readonly now?: () => number
}

/** The minimum time between two polls, whatever the number of viewers. */
const POLL_MS = 2_000
/** Rates are averages over this time, so that bursts do not make them flicker. */
const WINDOW_MS = 20_000
const TIMEOUT_MS = 3_000

/** Polls the metrics of the services and keeps a window of them to compute rates. */
export function createPipelineMonitor (options: Options): () => Promise<PipelineStatus> {
  const { fetch, now = () => performance.now() } = options
  // An unreachable service is part of the status, not an error.
  const sampling = { names: METRIC_NAMES, timeoutMs: TIMEOUT_MS, fetch }
  const snapshots: Snapshot[] = []
  let pending: Promise<PipelineStatus> | undefined
  let latest: { readonly atMs: number, readonly status: PipelineStatus } | undefined

  const poll = async (): Promise<PipelineStatus> => {
    const atMs = now()
    const named = [...options.targets, ...await readMetricsTargets(options.targetsFile)]
    const targets = await resolveAllAddresses(named, options.find)
    const answers = await Promise.all(targets.map(async target =>
      [target, await fetchSamples(target, sampling)] as const))
    const answered = answers.flatMap(([target, samples]) =>
      samples === undefined ? [] : [[target, samples] as const])
    const after = { atMs, byTarget: new Map(answered) }
    snapshots.push(after)
    while ((snapshots[0]?.atMs ?? atMs) < atMs - WINDOW_MS) snapshots.shift()
    const figures = computeFigures(snapshots[0] ?? after, after)
    const unreachable = targets.length - answered.length
    const samples = answered.flatMap(([, ofTarget]) => ofTarget)
    const status = { figures, samples, targets: targets.length, unreachable }
    latest = { atMs, status }
    return status
  }

  return async () => {
    if (latest !== undefined && now() - latest.atMs < POLL_MS) return latest.status
    pending ??= poll().finally(() => { pending = undefined })
    return await pending
  }
}

/** The metrics of all services at one time, by the address of each. */
type Snapshot = {
  readonly atMs: number
  readonly byTarget: ReadonlyMap<string, readonly Sample[]>
}

/** What moves along an arrow; undefined where no process reports it. */
type ArrowFigures = Arrow & {
  readonly messagesPerSecond: number | undefined
  /** Messages that are written, but not processed by the reading stage. */
  readonly lagMessages: number | undefined
}

type StageFigures = {
  readonly stage: StageName
  readonly instances: number
  /** Rows per second; for stages whose messages carry no rows, requests, jobs or messages. */
  readonly perSecond: number | undefined
  readonly oldestSeconds: number | undefined
  /** An operator paused the stage, and at least one of its processes reports it. */
  readonly isPaused: boolean
}

export type Figures = {
  readonly arrows: readonly ArrowFigures[]
  readonly stages: readonly StageFigures[]
  /** Tenants whose money is locked until `ledger` has compared it with the journal. */
  readonly tenantsWaiting: number
}

/** The metrics that the figures are computed from. */
const METRIC_NAMES: ReadonlySet<string> = new Set<typeof METRICS[number]['name']>([
  'stage_rows_total', 'stage_chunks_total', 'stage_oldest_age_seconds', 'consumer_offset',
  'consumer_lag_messages', 'http_requests_total', 'preflight_oldest_age_seconds',
  'feed_jobs_total', 'feed_partners', 'stage_paused', 'tenants_waiting',
  // Of the page of mail servers.
  'mailbox_egress_recipients_per_minute', 'mailbox_egress_sessions',
  'mailbox_egress_resting_seconds', 'mailbox_egress_recent_recipients', 'mailbox_rows_waiting',
])

/** The metrics of a stage: its work, a metric that each of its processes exports, and its age. */
type StageMetrics = {
  readonly work: string
  /** What its work counts. */
  readonly unit: string
  readonly liveness: string
  readonly age: string
}

const AGE = 'stage_oldest_age_seconds'
const OF_ROWS: StageMetrics =
  { work: 'stage_rows_total', unit: 'rows/s', liveness: AGE, age: AGE }
/** Of stages whose messages carry no rows. */
const OF_MESSAGES: StageMetrics =
  { work: 'stage_chunks_total', unit: 'messages/s', liveness: AGE, age: AGE }

/** How the figures of a stage are measured. */
export function stageMetrics (stage: StageName): StageMetrics {
  switch (stage) {
    case 'ingest': return {
      work: 'http_requests_total',
      unit: 'requests/s',
      liveness: 'preflight_oldest_age_seconds',
      age: 'preflight_oldest_age_seconds',
    }
    case 'feed': return {
      work: 'feed_jobs_total', unit: 'jobs/s', liveness: 'feed_partners', age: '',
    }
    case 'deliver': case 'publish': case 'ledger': return OF_MESSAGES
    default: return OF_ROWS
  }
}

/** Rates between two snapshots, and the lags of the later one. */
function computeFigures (before: Snapshot, after: Snapshot): Figures {
  const seconds = (after.atMs - before.atMs) / 1_000
  const [old, fresh] = [readPositions(before), readPositions(after)]
  return {
    arrows: ARROWS.map(arrow => measureArrow(arrow, { old, fresh, seconds })),
    stages: STAGES.map(stage => measureStage(stage, { before, after, seconds })),
    tenantsWaiting: Math.max(0, ...[...after.byTarget.values()].flat()
      .filter(({ name }) => name === 'tenants_waiting').map(({ value }) => value)),
  }
}

/** The offsets of a consumer group in its topics: processed, and written. */
type Position = { readonly processed: number, readonly written: number }
type Positions = ReadonlyMap<string, Position>
type Movement = { readonly old: Positions, readonly fresh: Positions, readonly seconds: number }

function measureArrow (arrow: Arrow, movement: Movement): ArrowFigures {
  const { kind, stage, topic } = arrow
  // Only readers report offsets; the written offset includes all writers.
  const [reader] = kind === 'reads'
    ? [stage]
    : stages.find(([, { reads }]) => reads.includes(topic)) ?? []
  const key = `${reader}>${topic}`
  const [old, fresh] = [movement.old.get(key), movement.fresh.get(key)]
  if (fresh === undefined) return { ...arrow, messagesPerSecond: undefined, lagMessages: undefined }
  const end = kind === 'reads' ? 'processed' : 'written'
  return {
    ...arrow,
    messagesPerSecond: old && rate(fresh[end] - old[end], movement.seconds),
    lagMessages: kind === 'reads' ? fresh.written - fresh.processed : undefined,
  }
}

function readPositions ({ byTarget }: Snapshot): Positions {
  // Several processes may report a partition. Offsets only grow, so the greatest is the latest.
  const partitions = new Map<string, { key: string, offset: number, lag: number }>()
  for (const { name, labels, value } of [...byTarget.values()].flat()) {
    const topic = logicalTopic(labels.topic ?? '')?.topic
    if (topic === undefined) continue
    const id = `${labels.group} ${labels.topic} ${labels.partition}`
    const partition = partitions.get(id) ??
      { key: `${labels.stage}>${topic}`, offset: 0, lag: 0 }
    if (name === 'consumer_offset') partition.offset = Math.max(partition.offset, value)
    if (name === 'consumer_lag_messages') partition.lag = Math.max(partition.lag, value)
    partitions.set(id, partition)
  }
  const positions = new Map<string, Position>()
  for (const { key, offset, lag } of partitions.values()) {
    const { processed, written } = positions.get(key) ?? { processed: 0, written: 0 }
    positions.set(key, { processed: processed + offset, written: written + offset + lag })
  }
  return positions
}

type Span = { readonly before: Snapshot, readonly after: Snapshot, readonly seconds: number }

function measureStage (stage: StageName, { before, after, seconds }: Span): StageFigures {
  const { work, liveness, age } = stageMetrics(stage)
  const ofStage = (samples: readonly Sample[] = [], name: string) => samples.filter(sample =>
    sample.name === name && (sample.labels.stage ?? stage) === stage).map(({ value }) => value)
  const ages: number[] = []
  let [instances, more, paused] = [0, 0, 0]
  for (const [target, samples] of after.byTarget) {
    if (ofStage(samples, liveness).length === 0) continue
    instances += 1
    ages.push(...ofStage(samples, age))
    paused += sumOf(ofStage(samples, 'stage_paused'))
    const earlier = before.byTarget.get(target)
    if (earlier === undefined) continue
    // The counters of a restarted process start at 0.
    more += Math.max(0, sumOf(ofStage(samples, work)) - sumOf(ofStage(earlier, work)))
  }
  return {
    stage,
    instances,
    perSecond: instances === 0 ? undefined : rate(more, seconds),
    oldestSeconds: ages.length === 0 ? undefined : Math.max(...ages),
    isPaused: paused > 0,
  }
}

const rate = (more: number, seconds: number) =>
  seconds > 0 ? Math.max(0, more) / seconds : undefined

const sumOf = (numbers: readonly number[]) => numbers.reduce((sum, number) => sum + number, 0)

/** A stage reads a topic, or writes it. */
export type Arrow = {
  readonly id: string
  readonly stage: StageName
  readonly topic: TopicName
  readonly kind: 'reads' | 'writes'
  /** Against the flow: a stage that writes a topic it reads, or one before it. */
  readonly isBackward: boolean
}

export const TOPICS = Object.keys(topology.topics) as readonly TopicName[]

const stages = Object.entries(topology.stages) as readonly (readonly [StageName, {
  readonly reads: readonly TopicName[]
  readonly writes: readonly TopicName[]
}])[]

/** Every arrow of the topology, in the order of the stages. */
export const ARROWS: readonly Arrow[] = stages.flatMap(([stage, { reads, writes }]) => [
  ...reads.map(topic => createArrow(stage, topic, 'reads')),
  ...writes.map(topic => ({
    ...createArrow(stage, topic, 'writes'),
    isBackward: reads.some(read => TOPICS.indexOf(read) >= TOPICS.indexOf(topic)),
  })),
])

function createArrow (stage: StageName, topic: TopicName, kind: Arrow['kind']): Arrow {
  const id = `${stage}-${kind}-${topic.replace('.', '-')}`
  return { id, stage, topic, kind, isBackward: false }
}
