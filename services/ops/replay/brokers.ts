import type { Admin } from 'kafkajs'
import type { From } from './from.ts'
import type { Meant } from './group.ts'
import type { Move, Standing } from './moves.ts'

type Asked = Pick<Admin, 'fetchOffsets' | 'fetchTopicOffsets' | 'fetchTopicOffsetsByTimestamp'>

/** How the partitions of a group stand, or only one of each topic. */
export async function standingsOf (
  admin: Asked, { group, topics }: Meant,
  { from, partition: only }: { readonly from: From, readonly partition: number | undefined }
): Promise<readonly Standing[]> {
  const committed = await admin.fetchOffsets({ groupId: group, topics: [...topics] })
  const standings = await Promise.all(committed.map(async ({ topic, partitions }) => {
    const bounds = await admin.fetchTopicOffsets(topic)
    const times = from.kind === 'time'
      ? await admin.fetchTopicOffsetsByTimestamp(topic, from.atMs)
      : []
    return bounds.map(({ partition, low, high }) => {
      const own = partitions.find(one => one.partition === partition)
      const time = times.find(one => one.partition === partition)
      const next = Math.max(Number(own?.offset ?? -1), Number(low))
      const atTime = time === undefined ? {} : { atTime: Number(time.offset) }
      return { topic, partition, low: Number(low), high: Number(high), next, ...atTime }
    })
  }))
  return standings.flat().filter(({ partition }) => only === undefined || partition === only)
}

/** How many processes are in a group now. */
export async function membersOf (
  admin: Pick<Admin, 'describeGroups'>, group: string
): Promise<number> {
  const { groups } = await admin.describeGroups([group])
  return groups.reduce((sum, { members }) => sum + members.length, 0)
}

/** Commits the offsets for a group without members. */
export async function moveGroup (
  admin: Pick<Admin, 'setOffsets'>, groupId: string, moves: readonly Move[]
): Promise<void> {
  for (const [topic, ofTopic] of Map.groupBy(moves, move => move.topic)) {
    const partitions = ofTopic.map(({ partition, to }) => ({ partition, offset: String(to) }))
    await admin.setOffsets({ groupId, topic, partitions })
  }
}
