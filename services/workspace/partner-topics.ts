import Type from 'typebox'
import { commonConfig, kafkaKeys, loadConfig, pick } from '../lib/config.ts'
import { allow, createTopics, withAdmin, type AccessRule } from '../lib/kafka/admin.ts'
import { kafkaConnectionOf } from '../lib/kafka/connection.ts'
import { partnerTopics, topicName } from '../lib/topics.ts'
import type { Environment } from './environment.ts'

export type MadeTopics = {
  readonly submitted: string
  readonly finished: string
  readonly rules: readonly AccessRule[]
  /** False on brokers that let everybody in. */
  readonly rulesCreated: boolean
}

export type PartnerTopicsOptions = {
  readonly partner: string
  readonly partitions: number
  /** As whom the partner connects to the brokers, for example `User:acme`. */
  readonly principal: string
}

const brokersConfig = Type.Object({
  ...pick(commonConfig, kafkaKeys),
  TOPIC_REPLICATION: Type.Optional(Type.Integer({
    minimum: 1, description: 'Copies of every topic; as the brokers are set up when left out.',
  })),
  TOPIC_MIN_INSYNC: Type.Optional(Type.Integer({
    minimum: 1,
    description: 'Copies that acknowledge a write; as the brokers are set up when left out.',
  })),
})

/**
 * Makes the pair of topics of a partner and the rules by which it reaches these alone. Topics and
 * rules that are there already stay as they are.
 */
export async function makePartnerTopics (
  env: Environment, { partner, partitions, principal }: PartnerTopicsOptions
): Promise<MadeTopics> {
  const config = loadConfig(brokersConfig, env)
  const rules = accessRules(partner, principal)
  const rulesCreated = await withAdmin(kafkaConnectionOf(config), async admin => {
    await createTopics(admin, partnerTopics(partner, partitions), {
      replication: config.TOPIC_REPLICATION, minInsync: config.TOPIC_MIN_INSYNC,
    })
    return await allow(admin, rules)
  })
  const named = (topic: 'feeds.submitted' | 'feeds.finished') => topicName(topic, { partner })
  return {
    submitted: named('feeds.submitted'), finished: named('feeds.finished'), rules, rulesCreated,
  }
}

/** What a partner may do: write contacts, read results in groups of its own, and no more. */
export function accessRules (partner: string, principal: string): readonly AccessRule[] {
  const onTopic = (topic: 'feeds.submitted' | 'feeds.finished') =>
    ({ principal, kind: 'topic', name: topicName(topic, { partner }), prefix: false }) as const
  const group = { principal, kind: 'group', name: `partner.${partner}.`, prefix: true } as const
  return [
    { ...onTopic('feeds.submitted'), operation: 'write' },
    { ...onTopic('feeds.submitted'), operation: 'describe' },
    { ...onTopic('feeds.finished'), operation: 'read' },
    { ...onTopic('feeds.finished'), operation: 'describe' },
    { ...group, operation: 'read' },
  ]
}
