import { STAGES, type StageName } from '../../topology.ts'
import { subscriptionsOf } from '../platform/topics.ts'
import type { KafkaAdmin } from './client.ts'

/** The committed offset and lag of a group in one partition, in messages. */
export type GroupLag = {
  readonly stage: StageName
  readonly group: string
  readonly topic: string
  readonly partition: number
  readonly offset: number
  readonly lag: number
}

/** A consumer group with its stage and topics. */
export type ConsumerGroup = {
  readonly stage: StageName
  readonly group: string
  readonly topics: readonly string[]
}

export type OffsetsAdmin = Pick<KafkaAdmin, 'fetchOffsets' | 'fetchTopicOffsets'>

/** All groups of the topology, without those of partners. */
export const TOPOLOGY_GROUPS: readonly ConsumerGroup[] =
  STAGES.flatMap(stage =>
    subscriptionsOf(stage).map(({ group, topics }) => ({ stage, group, topics })))

/**
 * The lag of groups per partition. A group without a committed offset, or with one below the log
 * start offset, starts at the log start offset.
 */
export async function lagsOf (
  offsets: OffsetsAdmin, groups: readonly ConsumerGroup[] = TOPOLOGY_GROUPS
): Promise<readonly GroupLag[]> {
  const topics = [...new Set(groups.flatMap(group => group.topics))]
  const bounds = new Map(await Promise.all(topics.map(async topic =>
    [topic, await offsets.fetchTopicOffsets(topic)] as const)))
  const lags = await Promise.all(groups.map(async ({ stage, group, topics }) => {
    const committed = await offsets.fetchOffsets({ groupId: group, topics: [...topics] })
    return committed.flatMap(({ topic, partitions }) => partitions.map(({ partition, offset }) => {
      const bound = bounds.get(topic)?.find(one => one.partition === partition)
      const [low, high] = [Number(bound?.low ?? 0), Number(bound?.high ?? 0)]
      const next = Math.max(Number(offset), low)
      return { stage, group, topic, partition, offset: next, lag: Math.max(0, high - next) }
    }))
  }))
  return lags.flat()
}
