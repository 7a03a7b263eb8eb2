import type { Admin } from 'kafkajs'
import { setTimeout as sleep } from 'node:timers/promises'
import { withAdmin } from '../../services/kafka/admin.ts'

type Env = Readonly<Record<string, string>>

const brokersOf = (env: Env) => ({ brokers: (env.KAFKA_BROKERS ?? '').split(',') })

/**
 * Deletes the committed offsets of every consumer group as soon as its members have left: the
 * broker counts one that was killed until its session has ended.
 */
export async function forgetOffsets (env: Env): Promise<void> {
  await withAdmin(brokersOf(env), async admin => {
    const { groups } = await admin.listGroups()
    const groupIds = groups.map(({ groupId }) => groupId)
    while (await haveMembers(admin, groupIds)) await sleep(100)
    await admin.deleteGroups(groupIds)
  })
}

async function haveMembers (admin: Admin, groupIds: readonly string[]): Promise<boolean> {
  const { groups } = await admin.describeGroups([...groupIds])
  return groups.some(({ state }) => state !== 'Empty' && state !== 'Dead')
}

/** How many messages were ever sent to a topic. */
export const messagesIn = (env: Env, topic: string): Promise<number> =>
  withAdmin(brokersOf(env), async admin => {
    const ends = await admin.fetchTopicOffsets(topic)
    return ends.reduce((sum, { high }) => sum + Number(high), 0)
  })

async function isBehind (admin: Admin, groupId: string): Promise<boolean> {
  for (const { topic, partitions } of await admin.fetchOffsets({ groupId })) {
    const ends = await admin.fetchTopicOffsets(topic)
    const committed = new Map(partitions.map(({ partition, offset }) => [partition, offset]))
    // What was removed needs no reading.
    const behind = ends.some(({ partition, low, high }) =>
      Math.max(Number(low), Number(committed.get(partition) ?? -1)) < Number(high))
    if (behind) return true
  }
  return false
}

/** Resolves once every group has committed the end of everything it reads; polls every 200 ms. */
export async function untilConsumed (env: Env, timeoutMs = 240_000): Promise<void> {
  const giveUpAt = Date.now() + timeoutMs
  await withAdmin(brokersOf(env), async admin => {
    for (;;) {
      const { groups } = await admin.listGroups()
      const behind = await Promise.all(groups.map(({ groupId }) => isBehind(admin, groupId)))
      if (groups.length > 0 && !behind.includes(true)) return
      if (Date.now() > giveUpAt) throw new Error('the groups did not reach the end of their topics')
      await sleep(200)
    }
  })
}
