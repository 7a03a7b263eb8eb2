import { Partitioners, type Kafka, type PartitionerArgs } from 'kafkajs'
import { InfrastructureError } from '../platform/errors.ts'
import type { ProducerClient } from './safe-producer.ts'

/**
 * The idempotent producer of kafkajs with a check that it has sent the whole batch. kafkajs alone
 * acknowledges a batch that it has sent in part: when the batch goes to two brokers, one rejects
 * its partitions, and by the retry the other broker, which has responded before, leads them.
 */
export function createVerifiedProducer (kafka: Kafka): ProducerClient {
  const pending = new Set<string>()
  const partitionOf = Partitioners.DefaultPartitioner()
  const trackingPartitioner = (args: PartitionerArgs) => {
    const partition = partitionOf(args)
    pending.add(`${args.topic}|${partition}`)
    return partition
  }
  const producer = kafka.producer({
    idempotent: true,
    maxInFlightRequests: 1,
    allowAutoTopicCreation: false,
    createPartitioner: () => trackingPartitioner,
  })
  return {
    connect: () => producer.connect(),
    disconnect: () => producer.disconnect(),
    sendBatch: async batch => {
      pending.clear()
      const results = await producer.sendBatch(batch)
      for (const { topicName, partition } of results) pending.delete(`${topicName}|${partition}`)
      if (pending.size === 0) return results
      throw new InfrastructureError('kafkajs acknowledged a batch without sending ' +
        `${[...pending].join(', ')}; send it again`)
    },
  }
}
