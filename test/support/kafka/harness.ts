import { randomUUID } from 'node:crypto'
import { Kafka, logLevel } from 'kafkajs'
import { createTopics } from '../../../services/runtime/kafka/admin.ts'
import { createKafkaBus } from '../../../services/runtime/kafka/kafka-bus.ts'
import type { BusHarness } from './bus-contract.ts'

/** A bus on real brokers, whose topics are deleted when it closes. */
export async function openKafkaHarness (
  brokers: readonly string[]
): Promise<BusHarness & { readonly close: () => Promise<void> }> {
  const fatal: unknown[] = []
  const topics: string[] = []
  const bus = createKafkaBus({
    brokers,
    clientId: 'bus-test',
    onFatal: (error) => { fatal.push(error) },
    // A member learns of another one with its next heartbeat.
    settings: { heartbeatMs: 200 },
  })
  const kafka = new Kafka({ brokers: [...brokers], logLevel: logLevel.NOTHING })
  const admin = kafka.admin()
  await admin.connect()
  const createTopic = async (numPartitions: number) => {
    const topic = `bus-${randomUUID()}`
    const settings = { keepHours: 1, compact: false }
    await createTopics(admin, [{ name: topic, partitions: numPartitions, ...settings }], {})
    topics.push(topic)
    return topic
  }
  const close = async () => {
    await bus.close()
    await admin.deleteTopics({ topics })
    await admin.disconnect()
  }
  return { bus, fatal, createTopic, close }
}
