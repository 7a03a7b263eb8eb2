import Type from 'typebox'
import { commonConfig, kafkaKeys, loadConfig, pick } from '../../services/platform/config.ts'
import { withAdmin } from '../../services/kafka/admin.ts'
import { kafkaConnectionOf } from '../../services/kafka/connection.ts'
import { deadTopic } from '../../services/platform/topics.ts'
import { STAGES } from '../../services/topology.ts'
import type { FaultStack } from './stack.ts'

const config = Type.Object(pick(commonConfig, kafkaKeys))

/** Messages in all dead-letter topics. */
export async function countDead ({ env }: FaultStack): Promise<number> {
  return await withAdmin(kafkaConnectionOf(loadConfig(config, env)), async admin => {
    const there = new Set(await admin.listTopics())
    const topics = STAGES.map(deadTopic)
      .filter(topic => there.has(topic))
    let count = 0
    // One after another: with several brokers one metadata lookup discards the result of another.
    for (const topic of topics) {
      for (const { high } of await admin.fetchTopicOffsets(topic)) count += Number(high)
    }
    return count
  })
}
