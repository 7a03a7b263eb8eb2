import { setTimeout as sleep } from 'node:timers/promises'
import { provision } from '../../../deploy/provision.ts'
import { withAdmin } from '../../../services/runtime/kafka/admin.ts'
import { retry } from '../../../services/runtime/platform/retry.ts'
import type { Fault, Scene } from '../fault.ts'
import { openCluster } from './cluster.ts'

const BEFORE = 4
const AFTER = 8
const TOPICS = ['rows.submitted.small', 'rows.normalized.small', 'rows.completed.small'] as const
const USED_WITHIN_MS = 60_000

/** Whether each topic has a message in a partition that is new. */
async function areUsed (brokers: readonly string[]): Promise<boolean> {
  return await withAdmin({ brokers }, async admin => {
    const offsets = await Promise.all(TOPICS.map(topic => admin.fetchTopicOffsets(topic)))
    return offsets.every(partitions => partitions.some(({ partition, high }) =>
      partition >= BEFORE && Number(high) > 0))
  })
}

/** A broker may not know yet that it leads a new partition. */
const isRetriable = (error: unknown) => (error as { retriable?: unknown }).retriable === true

async function untilUsed (brokers: readonly string[]): Promise<boolean> {
  for (const giveUpAt = Date.now() + USED_WITHIN_MS; Date.now() < giveUpAt; await sleep(200)) {
    const isUsed = await retry(20, () => areUsed(brokers), { when: isRetriable, maxMs: 500 })
    if (isUsed) return true
  }
  return false
}

/** No request may notice it, and the new partitions must be used soon. */
export async function growPartitions ({ environment: { stack }, load, log, say }: Scene) {
  await load.untilEnded(2)
  const rejected = () => log.answers.filter(({ status }) => status === 503).length
  const before = rejected()
  const grownAt = Date.now()
  await provision({ ...stack.env, TOPIC_PARTITIONS: String(AFTER) })
  const isUsed = await untilUsed(stack.addresses.KAFKA_BROKERS.split(','))
  say(`new partitions have messages ${Date.now() - grownAt} ms after they were added`)
  await load.untilEnded(10)
  const breaches = [
    ...isUsed ? [] : ['a topic has no message in any new partition'],
    ...rejected() === before ? [] : [`${rejected() - before} requests were answered with 503`],
  ]
  return { injected: AFTER - BEFORE, breaches, note: `from ${BEFORE} to ${AFTER} partitions` }
}

export const partitions: readonly Fault[] = [{
  name: 'partitions',
  kind: 'cluster',
  about: 'three brokers get more partitions of every topic that may grow',
  quick: false,
  stack: () => openCluster(),
  prepare: async () => ({
    env: { METADATA_MAX_AGE_MS: '2000' }, scale: { normalize: 2, lookup: 2, settle: 2 },
  }),
  inject: growPartitions,
}]
