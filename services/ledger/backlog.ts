import { Kafka, logLevel, type Admin } from 'kafkajs'
import type { Clock } from '../platform/clock.ts'
import { isInfrastructure } from '../platform/errors.ts'
import { kafkaOptionsOf, type KafkaConnection } from '../kafka/connection.ts'
import { retry } from '../platform/retry.ts'
import { subscriptionsOf, type Subscription } from '../platform/topics.ts'
import type { Lane, ServiceSlug } from '../topology.ts'

export type Backlog = {
  /** Whether a topic may still hold rows of the job. */
  readonly mayContain: (
    job: { readonly lane: Lane, readonly service: ServiceSlug }
  ) => Promise<boolean>
}

type BacklogOptions = {
  readonly connection: KafkaConnection
  readonly clientId: string
  readonly clock: Clock
}

/** Attempts at a request, as a coordinator that has just moved answers late. */
const TRIES = 10

/** A younger message does not count, as a working stage may be processing it. */
const MIN_AGE_MS = 60_000

/**
 * Finds messages that the consumer groups of a job's lane and service have not committed: any
 * message of a retry topic, as batches return to it while providers are down, and messages of the
 * other topics that are older than a minute. Messages of other jobs count as well, so a job behind
 * a backlog is never taken for stalled.
 */
export function createBacklog ({ connection, clientId, clock }: BacklogOptions): Backlog {
  const isAnyBehind = async (admin: Admin, subscriptions: readonly Subscription[]) => {
    for (const subscription of subscriptions) {
      const olderThanMs = clock.now() - MIN_AGE_MS
      const check = () => isBehind(admin, subscription, olderThanMs)
      if (await retry(TRIES, check, { when: isInfrastructure, maxMs: 1_000 })) return true
    }
    return false
  }
  const mayContain: Backlog['mayContain'] = async ({ lane, service }) => {
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
  return { mayContain }
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

/** The lowest offset of each partition, and the offset that a group must have reached. */
async function targetsOf (admin: Admin, topic: string, olderThanMs: number) {
  const bounds = await admin.fetchTopicOffsets(topic)
  const isRetry = topic.startsWith('rows.retry.')
  const targets = isRetry ? bounds : await admin.fetchTopicOffsetsByTimestamp(topic, olderThanMs)
  const targetOf = new Map(targets.map(({ partition, offset }) => [partition, BigInt(offset)]))
  return new Map(bounds.map(({ partition, low, high }) => {
    const target = targetOf.get(partition) ?? BigInt(high)
    return [partition, { low: BigInt(low), target: target < 0n ? BigInt(high) : target }]
  }))
}
