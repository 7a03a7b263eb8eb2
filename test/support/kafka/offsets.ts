import type { KafkaAdmin } from '../../../services/runtime/kafka/client.ts'
import { setTimeout as sleep } from 'node:timers/promises'
import { withAdmin, fetchLags, TOPOLOGY_GROUPS } from '../../../services/runtime/kafka/admin.ts'
import { FEED_GROUPS } from '../../../services/runtime/platform/topics.ts'
import type { StageName } from '../../../services/topology.ts'

type Env = Readonly<Record<string, string>>

const brokersOf = (env: Env) => ({ brokers: (env.KAFKA_BROKERS ?? '').split(',') })

const GROUPS: ReadonlySet<string> = new Set(TOPOLOGY_GROUPS.map(({ group }) => group))

/** Those of these that exist. Others come and go: each reader of a topic deletes its own. */
const existing = async (admin: KafkaAdmin, groups: ReadonlySet<string>) =>
  (await admin.listGroups()).groups.map(({ groupId }) => groupId).filter(id => groups.has(id))

/** Deletes the committed offsets of every service as soon as its members have left. */
export async function forgetOffsets (env: Env): Promise<void> {
  await withAdmin(brokersOf(env), async admin => admin.deleteGroups(await untilEmpty(admin)))
}

/** Longer than any session of a consumer. */
const LEFT_AFTER_MS = 60_000

/** Resolves once no service is a member: a killed one is, until its session ends. */
export async function untilGroupsEmpty (env: Env): Promise<void> {
  await withAdmin(brokersOf(env), admin => untilEmpty(admin, Date.now() + LEFT_AFTER_MS))
}

async function untilEmpty (admin: KafkaAdmin, giveUpAtMs = Infinity): Promise<string[]> {
  const groupIds = await existing(admin, new Set([...GROUPS, ...FEED_GROUPS]))
  const haveMembers = async () => groupIds.length > 0 &&
    (await admin.describeGroups(groupIds)).groups
      .some(({ state }) => state !== 'Empty' && state !== 'Dead')
  while (await haveMembers() && Date.now() < giveUpAtMs) await sleep(100)
  return groupIds
}

/** How many messages were ever sent to a topic. */
export const messagesIn = (env: Env, topic: string): Promise<number> =>
  withAdmin(brokersOf(env), async admin => {
    const ends = await admin.fetchTopicOffsets(topic)
    return ends.reduce((sum, { high }) => sum + Number(high), 0)
  })

/** What a group has not committed: partitions with the committed offset and the end. */
async function openPartitions (
  admin: KafkaAdmin, groupId: string, retries: boolean
): Promise<readonly string[]> {
  const found = (await admin.fetchOffsets({ groupId })).map(async ({ topic, partitions }) => {
    if (!retries && topic.startsWith('rows.retry.')) return []
    const committed = new Map(partitions.map(({ partition, offset }) => [partition, offset]))
    return (await admin.fetchTopicOffsets(topic)).flatMap(({ partition, low, high }) => {
      // What was removed needs no reading.
      const at = Math.max(Number(low), Number(committed.get(partition) ?? -1))
      return at < Number(high) ? [`${groupId}: ${topic}[${partition}] at ${at} of ${high}`] : []
    })
  })
  return (await Promise.all(found)).flat()
}

type Consumed = {
  /** All that are there by default. */
  readonly stage?: StageName
  /** Whether to wait for rows that are due later, of jobs whose checks are unavailable. */
  readonly retries?: boolean
}

/** What groups of stages have not committed; undefined if there are none. */
async function openOf (
  admin: KafkaAdmin, { stage, retries = true }: Consumed
): Promise<readonly string[] | undefined> {
  if (stage !== undefined) {
    const lags = await fetchLags(admin, TOPOLOGY_GROUPS.filter(group => group.stage === stage))
    return lags.filter(({ lag }) => lag !== 0).map(({ group, lag }) => `${group}: lag ${lag}`)
  }
  // Any other group may never commit again: that of a reader that was killed, or of another prefix.
  const groups = await existing(admin, GROUPS)
  if (groups.length === 0) return undefined
  return (await Promise.all(groups.map(group => openPartitions(admin, group, retries)))).flat()
}

/** Far beyond what a single message takes on a busy machine, and less than `eventually` waits. */
const STALLED_AFTER_MS = 120_000

/**
 * Resolves once every group of a stage, or those of one stage, have committed the end of everything
 * they read; polls every 200 ms. Fails if for minutes none commits anything.
 */
export async function untilConsumed (env: Env, consumed: Consumed = {}): Promise<void> {
  await withAdmin(brokersOf(env), async admin => {
    let last = { text: '', atMs: Date.now() }
    for (;;) {
      const open = await openOf(admin, consumed)
      if (open?.length === 0) return
      const text = open?.join('\n') ?? 'there are no groups'
      if (text !== last.text) last = { text, atMs: Date.now() }
      if (Date.now() - last.atMs > STALLED_AFTER_MS) {
        throw new Error(`these groups do not reach the end of their topics:\n${text}`)
      }
      await sleep(200)
    }
  })
}
