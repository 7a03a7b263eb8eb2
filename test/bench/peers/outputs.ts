import { Kafka, logLevel, type KafkaMessage } from 'kafkajs'
import { randomUUID } from 'node:crypto'
import { withAdmin } from '../../../services/kafka/admin.ts'

export type Outputs = {
  /** Resolves with the moment at which so many messages of a round had come. */
  readonly until: (round: string, count: number) => Promise<number>
  readonly close: () => Promise<void>
}

type Waiting = { readonly round: string, left: number, readonly done: (at: number) => void }

/** Watches what is written to a topic from now on; a message's header `job` names its round. */
export async function watchOutputs (brokers: readonly string[], topic: string): Promise<Outputs> {
  const groupId = `bench.${randomUUID()}`
  await beginAtEnd({ brokers, topic, groupId })
  const kafka = new Kafka({ brokers: [...brokers], clientId: 'bench', logLevel: logLevel.NOTHING })
  const consumer = kafka.consumer({ groupId, maxWaitTimeInMs: 100 })
  const waiting = new Set<Waiting>()
  const take = ({ headers }: KafkaMessage) => {
    const round = String(headers?.job)
    for (const one of waiting) {
      if (one.round !== round) continue
      one.left -= 1
      if (one.left > 0) continue
      waiting.delete(one)
      one.done(performance.now())
    }
  }
  const joined = new Promise(resolve => { consumer.on(consumer.events.GROUP_JOIN, resolve) })
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await consumer.run({
    autoCommit: false,
    partitionsConsumedConcurrently: 4,
    eachBatch: async ({ batch }) => batch.messages.forEach(take),
  })
  await joined
  return {
    until: (round, count) => new Promise(resolve => {
      waiting.add({ round, left: count, done: resolve })
    }),
    close: () => consumer.disconnect(),
  }
}

/** With an initial offset, the group misses nothing that is written while it joins. */
async function beginAtEnd (
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
