import type { Admin } from 'kafkajs'
import { setTimeout as sleep } from 'node:timers/promises'
import { withAdmin } from '../../services/kafka/admin.ts'
import { lagsOf, TOPOLOGY_GROUPS } from '../../services/kafka/lag.ts'
import { logicalTopic } from '../../services/platform/topics.ts'
import type { StageName } from '../../services/topology.ts'

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
    // A group of feeds has topics of revoked partners too, whose last messages are never read.
    if (logicalTopic(topic)?.partner !== undefined) continue
    const ends = await admin.fetchTopicOffsets(topic)
    const committed = new Map(partitions.map(({ partition, offset }) => [partition, offset]))
    // What was removed needs no reading.
    const behind = ends.some(({ partition, low, high }) =>
      Math.max(Number(low), Number(committed.get(partition) ?? -1)) < Number(high))
    if (behind) return true
  }
  return false
}

/** The groups that have not committed the end; undefined if there are no groups. */
async function groupsBehind (
  admin: Admin, stage: StageName | undefined
): Promise<readonly string[] | undefined> {
  if (stage !== undefined) {
    const lags = await lagsOf(admin, TOPOLOGY_GROUPS.filter(group => group.stage === stage))
    return lags.filter(({ lag }) => lag !== 0).map(({ group }) => group)
  }
  const { groups } = await admin.listGroups()
  if (groups.length === 0) return undefined
  const behind = await Promise.all(groups.map(async ({ groupId }) =>
    await isBehind(admin, groupId) ? [groupId] : []))
  return behind.flat()
}

/**
 * Resolves once every group, or those of one stage, have committed the end of everything they
 * read, except topics of partners; polls every 200 ms.
 */
export async function untilConsumed (
  env: Env,
  { stage, timeoutMs = 240_000 }: { readonly stage?: StageName, readonly timeoutMs?: number } = {}
): Promise<void> {
  const giveUpAt = Date.now() + timeoutMs
  await withAdmin(brokersOf(env), async admin => {
    for (;;) {
      const behind = await groupsBehind(admin, stage)
      if (behind?.length === 0) return
      if (Date.now() > giveUpAt) {
        throw new Error(`these groups did not reach the end of their topics: ${behind?.join(', ')}`)
      }
      await sleep(200)
    }
  })
}
