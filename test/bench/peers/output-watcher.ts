import { Kafka, logLevel, type KafkaMessage } from 'kafkajs'
import { randomUUID } from 'node:crypto'
import { withAdmin } from '../../../services/runtime/kafka/admin.ts'

export type OutputWatcher = {
  /** Resolves with the time at which this many messages of a round have arrived. */
  readonly waitFor: (round: string, count: number) => Promise<number>
  readonly close: () => Promise<void>
}

type Waiter = { readonly round: string, left: number, readonly resolve: (at: number) => void }

/** Counts the new messages of a topic by round, which the header `job` of a message contains. */
export async function watchOutputs (
  brokers: readonly string[], topic: string
): Promise<OutputWatcher> {
  const groupId = `bench.${randomUUID()}`
  await commitEndOffsets({ brokers, topic, groupId })
  const kafka = new Kafka({ brokers: [...brokers], clientId: 'bench', logLevel: logLevel.NOTHING })
  const consumer = kafka.consumer({ groupId, maxWaitTimeInMs: 100 })
  const waiters = new Set<Waiter>()
  const countMessage = ({ headers }: KafkaMessage) => {
    const round = String(headers?.job)
    for (const waiter of waiters) {
      if (waiter.round !== round) continue
      waiter.left -= 1
      if (waiter.left > 0) continue
      waiters.delete(waiter)
      waiter.resolve(performance.now())
    }
  }
  const joined = new Promise(resolve => { consumer.on(consumer.events.GROUP_JOIN, resolve) })
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await consumer.run({
    autoCommit: false,
    partitionsConsumedConcurrently: 4,
    eachBatch: async ({ batch }) => batch.messages.forEach(countMessage),
  })
  await joined
  return {
    waitFor: (round, count) => new Promise(resolve => {
      waiters.add({ round, left: count, resolve })
    }),
    close: () => consumer.disconnect(),
  }
}

/** With committed offsets, the group also gets the messages that are produced while it joins. */
async function commitEndOffsets (
  { brokers, topic, groupId }: {
    readonly brokers: readonly string[], readonly topic: string, readonly groupId: string,
  }
): Promise<void> {
  await withAdmin({ brokers }, async admin => {
    const ends = await admin.fetchTopicOffsets(topic)
    const partitions = ends.map(({ partition, high }) => ({ partition, offset: high }))
    await admin.setOffsets({ groupId, topic, partitions })
  })
}
