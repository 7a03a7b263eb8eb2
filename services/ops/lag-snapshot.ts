import type { Admin } from 'kafkajs'
import { lagsOf, TOPOLOGY_GROUPS, type GroupLag, type ConsumerGroup } from '../kafka/lag.ts'
import { logicalTopic } from '../platform/topics.ts'
import { round } from './command-line.ts'
import { queryMetrics } from './metrics.ts'
import type { Pause } from './pauses.ts'

/** The offsets of all groups at one time, and the age of the oldest message of each group. */
export type LagSnapshot = {
  readonly atMs: number
  readonly lags: readonly GroupLag[]
  /** Seconds by group, for groups whose processes report metrics. */
  readonly ages: ReadonlyMap<string, number>
  /** The paused stages; undefined when Redis is unavailable. */
  readonly pauses: readonly Pause[] | undefined
}

const AGE_METRICS = new Set(['stage_oldest_age_seconds'])

/** Returns the groups of the topology, and those that read the topics of partners. */
export function consumerGroups (topics: readonly string[]): readonly ConsumerGroup[] {
  const partners = topics.flatMap((name): readonly ConsumerGroup[] => {
    const { topic, partner } = logicalTopic(name) ?? {}
    if (topic !== 'feeds.submitted' || partner === undefined) return []
    return [{ stage: 'feed', group: `feed.${partner}`, topics: [name] }]
  })
  return [...TOPOLOGY_GROUPS, ...partners]
}

type SnapshotDeps = {
  readonly admin: Pick<Admin, 'fetchOffsets' | 'fetchTopicOffsets' | 'listTopics'>
  readonly targets: () => Promise<readonly string[]>
  readonly pauses: () => Promise<readonly Pause[] | undefined>
  readonly fetch?: typeof globalThis.fetch
}

/** Queries brokers, services and Redis concurrently. */
export async function takeLagSnapshot (
  { admin, targets, pauses: readPauses, fetch }: SnapshotDeps
): Promise<LagSnapshot> {
  const [lags, ages, pauses] = await Promise.all([
    admin.listTopics().then(topics => lagsOf(admin, consumerGroups(topics))),
    targets().then(found => queryAges(found, fetch)),
    readPauses(),
  ])
  return { atMs: performance.now(), lags, ages, pauses }
}

async function queryAges (
  targets: readonly string[], fetch = globalThis.fetch
): Promise<ReadonlyMap<string, number>> {
  const ages = new Map<string, number>()
  const { processes } = await queryMetrics(targets, AGE_METRICS, fetch)
  for (const { labels: { group = '' }, value } of processes.flat()) {
    ages.set(group, Math.max(ages.get(group) ?? 0, value))
  }
  return ages
}

/** The lag of a group in all its topics, or in one partition. Unknown values are null. */
export type LagLine = {
  readonly stage: string
  readonly group: string
  /** Separated by commas when a group reads several topics. */
  readonly topic: string
  /** The number of the partition, when the line is about one partition. */
  readonly partition: number | null
  readonly partitions: number
  readonly lagMessages: number
  /** Messages that were processed per second since the previous snapshot. */
  readonly messagesPerSecond: number | null
  /** Time until the lag is 0 at the current rate; null when the lag does not decrease. */
  readonly catchUpSeconds: number | null
  readonly oldestSeconds: number | null
  /** Whether an operator has paused the stage. */
  readonly paused: boolean | null
}

type LineOptions = { readonly byPartition: boolean, readonly stage?: string | undefined }

/** Returns a line per group, or per partition, with rates since the previous snapshot. */
export function lagLines (
  before: LagSnapshot | undefined, after: LagSnapshot, { byPartition, stage }: LineOptions
): readonly LagLine[] {
  const keyOf = ({ group, topic, partition }: GroupLag) =>
    byPartition ? `${group} ${topic} ${partition}` : group
  const earlierLags = before && Map.groupBy(before.lags, keyOf)
  const selected = after.lags.filter(groupLag => stage === undefined || groupLag.stage === stage)
  return [...Map.groupBy(selected, keyOf)].flatMap(([key, lags]) => {
    const [first] = lags
    if (first === undefined) return []
    const seconds = (after.atMs - (before?.atMs ?? after.atMs)) / 1_000
    const age = after.ages.get(first.group)
    return [{
      stage: first.stage,
      group: first.group,
      topic: [...new Set(lags.map(({ topic }) => topic))].join(', '),
      partition: byPartition ? first.partition : null,
      partitions: lags.length,
      ...ratesOf(lags, earlierLags?.get(key), seconds),
      oldestSeconds: age === undefined ? null : round(age),
      paused: after.pauses?.some(pause => pause.stage === first.stage) ?? null,
    }]
  })
}

type Rates = Pick<LagLine, 'lagMessages' | 'messagesPerSecond' | 'catchUpSeconds'>

function ratesOf (
  lags: readonly GroupLag[], earlier: readonly GroupLag[] | undefined, seconds: number
): Rates {
  const lagMessages = sumOf(lags, 'lag')
  if (earlier === undefined || seconds <= 0) {
    return { lagMessages, messagesPerSecond: null, catchUpSeconds: lagMessages === 0 ? 0 : null }
  }
  const processed = Math.max(0, sumOf(lags, 'offset') - sumOf(earlier, 'offset'))
  const decrease = (sumOf(earlier, 'lag') - lagMessages) / seconds
  const remaining = decrease > 0 ? round(lagMessages / decrease) : null
  return {
    lagMessages,
    messagesPerSecond: round(processed / seconds),
    catchUpSeconds: lagMessages === 0 ? 0 : remaining,
  }
}

function sumOf (lags: readonly GroupLag[], field: 'lag' | 'offset'): number {
  return lags.reduce((sum, groupLag) => sum + groupLag[field], 0)
}
