import type { Admin } from 'kafkajs'
import { placesOf, TOPOLOGY_GROUPS, type Place, type ReadingGroup } from '../../lib/kafka/lag.ts'
import { logicalTopic } from '../../lib/topics.ts'
import { askMetrics } from '../metrics.ts'
import type { Pause } from '../pause/pauses.ts'

/** Where all groups stood at one moment, and the age of the oldest message each has in work. */
export type Look = {
  readonly atMs: number
  readonly places: readonly Place[]
  /** Seconds by group, of those whose processes tell it. */
  readonly ages: ReadonlyMap<string, number>
  /** Stages that are paused; undefined where nobody could tell. */
  readonly pauses: readonly Pause[] | undefined
}

const AGE = new Set(['stage_oldest_age_seconds'])

/** The groups of the topology, and those that read the topics of partners. */
export function groupsOf (topics: readonly string[]): readonly ReadingGroup[] {
  const partners = topics.flatMap((name): readonly ReadingGroup[] => {
    const { topic, partner } = logicalTopic(name) ?? {}
    if (topic !== 'feeds.submitted' || partner === undefined) return []
    return [{ stage: 'feed', group: `feed.${partner}`, topics: [name] }]
  })
  return [...TOPOLOGY_GROUPS, ...partners]
}

type LookParts = {
  readonly admin: Pick<Admin, 'fetchOffsets' | 'fetchTopicOffsets' | 'listTopics'>
  readonly targets: () => Promise<readonly string[]>
  readonly pauses: () => Promise<readonly Pause[] | undefined>
  readonly fetch?: typeof globalThis.fetch
}

/** Asks brokers, services and Redis at the same time. */
export async function lookAt (
  { admin, targets, pauses: readPauses, fetch }: LookParts
): Promise<Look> {
  const [places, ages, pauses] = await Promise.all([
    admin.listTopics().then(topics => placesOf(admin, groupsOf(topics))),
    targets().then(found => agesOf(found, fetch)),
    readPauses(),
  ])
  return { atMs: performance.now(), places, ages, pauses }
}

async function agesOf (
  targets: readonly string[], fetch = globalThis.fetch
): Promise<ReadonlyMap<string, number>> {
  const ages = new Map<string, number>()
  const { processes } = await askMetrics(targets, AGE, fetch)
  for (const { labels: { group = '' }, value } of processes.flat()) {
    ages.set(group, Math.max(ages.get(group) ?? 0, value))
  }
  return ages
}
