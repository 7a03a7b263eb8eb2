import { Kafka, logLevel, type Admin } from 'kafkajs'
import type { Clock } from '../platform/clock.ts'
import { isInfrastructure } from '../platform/errors.ts'
import { kafkaOptionsOf, type KafkaConnection } from '../kafka/connection.ts'
import { retry } from '../platform/retry.ts'
import { subscriptionsOf, type Subscription } from '../platform/topics.ts'
import type { Lane, ServiceSlug } from '../topology.ts'

/** Whether rows of a job may still be on their way. */
export type Backlog = {
  readonly waits: (job: { readonly lane: Lane, readonly service: ServiceSlug }) => Promise<boolean>
}

type BacklogOptions = {
  readonly connection: KafkaConnection
  readonly clientId: string
  readonly clock: Clock
}

/** A coordinator that has just moved answers after a moment. */
const TRIES = 10

/** A message younger than this is on its way through a stage that works; it is no backlog. */
const UNDER_WAY_MS = 60_000

/**
 * Looks for messages that the job's consumer groups have not finished: of the last stages, those
 * older than a minute; of parts put off, any at all, as they come back for as long as providers are
 * down. Messages of other jobs count as well, so a job behind a backlog is never taken for stalled.
 */
export function createBacklog ({ connection, clientId, clock }: BacklogOptions): Backlog {
  const isAnyBehind = async (admin: Admin, subscriptions: readonly Subscription[]) => {
    for (const subscription of subscriptions) {
      const olderThanMs = clock.now() - UNDER_WAY_MS
      const asking = () => isBehind(admin, subscription, olderThanMs)
      if (await retry(TRIES, asking, { when: isInfrastructure, maxMs: 1_000 })) return true
    }
    return false
  }
  const waits: Backlog['waits'] = async ({ lane, service }) => {
    const limits = { lanes: [lane], services: [service] }
    const kafka = new Kafka({
      ...kafkaOptionsOf(connection), clientId, logLevel: logLevel.NOTHING,
    })
    const admin = kafka.admin()
    await admin.connect()
    try {
      return await isAnyBehind(admin, (['lookup', 'verify', 'settle'] as const)
        .flatMap(stage => subscriptionsOf(stage, limits)))
    } finally {
      await admin.disconnect()
    }
  }
  return { waits }
}

async function isBehind (
  admin: Admin, { group, topics }: Subscription, olderThanMs: number
): Promise<boolean> {
  const committed = await admin.fetchOffsets({ groupId: group, topics: [...topics] })
  for (const { topic, partitions } of committed) {
    const ends = await targetsOf(admin, topic, olderThanMs)
    const behind = partitions.some(({ partition, offset }) => {
      const { low = 0n, target = 0n } = ends.get(partition) ?? {}
      const next = BigInt(offset) < low ? low : BigInt(offset)
      return next < target
    })
    if (behind) return true
  }
  return false
}

/** Of each partition the lowest offset there is, and the one a group has to have reached. */
async function targetsOf (admin: Admin, topic: string, olderThanMs: number) {
  const bounds = await admin.fetchTopicOffsets(topic)
  const isPutOff = topic.startsWith('rows.retry.')
  const targets = isPutOff ? bounds : await admin.fetchTopicOffsetsByTimestamp(topic, olderThanMs)
  const targetOf = new Map(targets.map(({ partition, offset }) => [partition, BigInt(offset)]))
  return new Map(bounds.map(({ partition, low, high }) => {
    const target = targetOf.get(partition) ?? BigInt(high)
    return [partition, { low: BigInt(low), target: target < 0n ? BigInt(high) : target }]
  }))
}
