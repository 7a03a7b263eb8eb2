import { Partitioners, type Kafka, type PartitionerArgs } from 'kafkajs'
import type { ProducerClient } from './safe-producer.ts'

/**
 * kafkajs' idempotent producer, which rejects a batch that it did not send whole. By itself it says
 * that it did when a batch goes to two brokers, one refuses, and the other, which has answered,
 * leads the refused partitions by the next try: they are left out then.
 */
export function createVerifiedProducer (kafka: Kafka): ProducerClient {
  const unanswered = new Set<string>()
  const partitionOf = Partitioners.DefaultPartitioner()
  const noting = (args: PartitionerArgs) => {
    const partition = partitionOf(args)
    unanswered.add(`${args.topic}|${partition}`)
    return partition
  }
  const producer = kafka.producer({
    idempotent: true,
    maxInFlightRequests: 1,
    allowAutoTopicCreation: false,
    createPartitioner: () => noting,
  })
  return {
    connect: () => producer.connect(),
    disconnect: () => producer.disconnect(),
    sendBatch: async batch => {
      unanswered.clear()
      const answers = await producer.sendBatch(batch)
      for (const { topicName, partition } of answers) unanswered.delete(`${topicName}|${partition}`)
      if (unanswered.size === 0) return answers
      throw new Error(`The client left out what is for ${[...unanswered].join(', ')}.`)
    },
  }
}
