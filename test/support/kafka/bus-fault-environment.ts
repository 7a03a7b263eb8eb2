import { fork } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import type { Admin } from 'kafkajs'
import { Kafka, logLevel } from 'kafkajs'
import { afterAll, describe } from 'vitest'
import type { RawMessage } from '../../../services/runtime/kafka/bus.ts'
import { createTopics } from '../../../services/runtime/kafka/admin.ts'
import { createKafkaBus, type KafkaBusOptions } from '../../../services/runtime/kafka/kafka-bus.ts'
import { createTopicReader } from '../../../services/runtime/kafka/topic-reader.ts'
import { endChild } from '../stacks/processes.ts'
import { stackEnv } from '../stacks/stack.ts'
import { startKafkaProxy } from './proxy.ts'

export type FaultLink = Awaited<ReturnType<typeof openLink>>

/** What a member in another process reports. */
export type MemberNews =
  | { readonly kind: 'delivered', readonly offsets: readonly number[] }
  | { readonly kind: 'aborted' }

/** Times of one case, where it needs others than the usual ones. */
type LinkTimes = NonNullable<KafkaBusOptions['settings']> &
  Pick<KafkaBusOptions, 'requestTimeoutMs'>

/** Quick to notice what is lost; the shortest session that brokers allow by themselves. */
const QUICK = {
  requestTimeoutMs: 1_000, sessionTimeoutMs: 6_000, heartbeatMs: 500, rebalanceTimeoutMs: 2_000,
}

/** Runs a case on a link of its own, which is closed however the case ends. */
export type OnLink = (
  work: (link: FaultLink) => Promise<void>, times?: LinkTimes
) => () => Promise<void>

/**
 * What kafkajs has to stand, on the brokers of the stack: answers and requests that get lost,
 * connections that break, brokers that refuse, members that freeze. The cases run in parallel,
 * since most of their time is waiting for a client to notice.
 */
export async function describeBusFaults (
  describeCases: (onLink: OnLink) => void
): Promise<void> {
  const brokers = (stackEnv().KAFKA_BROKERS ?? '').split(',')
  const admin = new Kafka({ brokers: [...brokers], logLevel: logLevel.NOTHING }).admin()
  await admin.connect()
  const topics: string[] = []
  afterAll(async () => {
    if (topics.length > 0) await admin.deleteTopics({ topics })
    await admin.disconnect()
  })
  describe.concurrent('bus faults: kafkajs', () => {
    describeCases((work, times) => async () => {
      const link = await openLink({ brokers, admin, topics }, times)
      try {
        await work(link)
      } finally {
        await link.close()
      }
    })
  })
}

type Place = {
  readonly brokers: readonly string[]
  readonly admin: Admin
  /** Deleted at the end. */
  readonly topics: string[]
}

/** A bus of an adapter behind a proxy of its own, and direct access for the cases. */
async function openLink ({ brokers, admin, topics }: Place, times: LinkTimes = {}) {
  const { requestTimeoutMs, ...settings } = { ...QUICK, ...times }
  const proxy = await startKafkaProxy({ brokers })
  const fatal: unknown[] = []
  const bus = createKafkaBus({
    brokers: proxy.addresses,
    clientId: 'bus-fault-test',
    onFatal: error => { fatal.push(error) },
    requestTimeoutMs,
    settings,
  })
  const reader = createTopicReader({ brokers, clientId: 'bus-fault-reader' })
  return {
    bus,
    proxy,
    /** What the adapter gave to its `onFatal`. */
    fatal: fatal as readonly unknown[],
    createTopic: async (numPartitions: number) => {
      const topic = `bus-fault-${randomUUID()}`
      topics.push(topic)
      const settings = { keepHours: 1, compact: false }
      await createTopics(admin, [{ name: topic, partitions: numPartitions, ...settings }], {})
      return topic
    },
    /** All messages of a topic, in the order of each partition. */
    contents: async (topic: string): Promise<readonly RawMessage[]> => {
      const found: RawMessage[] = []
      await reader.read(topic, messages => { found.push(...messages) })
      return found
    },
    /** What a group has committed of a topic by partition, -1 for nothing. */
    committed: async (groupId: string, topic: string) => {
      const [offsets] = await admin.fetchOffsets({ groupId, topics: [topic] })
      return (offsets?.partitions ?? [])
        .toSorted((a, b) => a.partition - b.partition).map(({ offset }) => Number(offset))
    },
    /** A consumer of the same adapter in a process of its own, not behind the proxy. */
    startMember: (group: string, topic: string) => startMember({ brokers, group, topic }),
    close: async () => {
      await bus.close()
      await proxy.close()
    },
  }
}

/** Holds its deliveries, and commits only on `commit`. */
function startMember (
  place: Pick<Place, 'brokers'> & { readonly group: string, readonly topic: string }
) {
  const child = fork(`${import.meta.dirname}/bus-fault-member.ts`, [JSON.stringify(place)])
  const news: MemberNews[] = []
  child.on('message', message => { news.push(message as MemberNews) })
  /** Resolves with the first news of a kind, also with such as came before. */
  const heard = async (kind: MemberNews['kind']) => {
    for (;;) {
      const found = news.find(one => one.kind === kind)
      if (found !== undefined) return found
      if (child.exitCode !== null) throw new Error(`the member ended with ${child.exitCode}`)
      await Promise.race([once(child, 'message'), once(child, 'exit')])
    }
  }
  return {
    freeze: () => { child.kill('SIGSTOP') },
    thaw: () => { child.kill('SIGCONT') },
    commit: (offset: number) => { child.send(offset) },
    heard,
    stop: () => endChild(child),
  }
}
