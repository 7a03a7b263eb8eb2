import type { Admin } from 'kafkajs'
import { STAGES, type StageName } from '../topology.ts'
import { subscriptionsOf } from '../platform/topics.ts'

/** How far a group is in one partition, in messages. */
export type Place = {
  readonly stage: StageName
  readonly group: string
  readonly topic: string
  readonly partition: number
  readonly offset: number
  readonly lag: number
}

/** A consumer group, the stage it belongs to and the topics it reads. */
export type ReadingGroup = {
  readonly stage: StageName
  readonly group: string
  readonly topics: readonly string[]
}

/** What is asked of the brokers. */
export type Offsets = Pick<Admin, 'fetchOffsets' | 'fetchTopicOffsets'>

/** Every group of the topology but those of partners, which are made when partners are. */
export const TOPOLOGY_GROUPS: readonly ReadingGroup[] =
  STAGES.flatMap(stage =>
    subscriptionsOf(stage).map(({ group, topics }) => ({ stage, group, topics })))

/**
 * Where groups stand. A group that never committed has all before it that is still kept, and one
 * whose next message is not kept any more begins at the oldest that is.
 */
export async function placesOf (
  offsets: Offsets, groups: readonly ReadingGroup[] = TOPOLOGY_GROUPS
): Promise<readonly Place[]> {
  const topics = [...new Set(groups.flatMap(group => group.topics))]
  const bounds = new Map(await Promise.all(topics.map(async topic =>
    [topic, await offsets.fetchTopicOffsets(topic)] as const)))
  const places = await Promise.all(groups.map(async ({ stage, group, topics }) => {
    const committed = await offsets.fetchOffsets({ groupId: group, topics: [...topics] })
    return committed.flatMap(({ topic, partitions }) => partitions.map(({ partition, offset }) => {
      const bound = bounds.get(topic)?.find(one => one.partition === partition)
      const [low, high] = [Number(bound?.low ?? 0), Number(bound?.high ?? 0)]
      const next = Math.max(Number(offset), low)
      return { stage, group, topic, partition, offset: next, lag: Math.max(0, high - next) }
    }))
  }))
  return places.flat()
}
