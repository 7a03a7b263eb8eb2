import Type from 'typebox'
import { commonConfig, kafkaKeys, loadConfig, pick } from '../lib/config.ts'
import { allow, createTopics, withAdmin, type AccessRule } from '../lib/kafka/admin.ts'
import { kafkaConnectionOf } from '../lib/kafka/connection.ts'
import { UsageError } from '../lib/run-command.ts'
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
  /** Accepts brokers that let everybody in. */
  readonly trial: boolean
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

const NO_AUTHORIZER = 'The brokers have no authorizer, so every Kafka client can read and write ' +
  'this feed. Set one up (deploy/docs/security.md), or accept that for a trial: --trial'

/**
 * Makes the rules by which a partner reaches its pair of topics alone, then the topics. Topics and
 * rules that are there already stay as they are.
 * @throws UsageError when the brokers have no authorizer, unless it is for a trial.
 */
export async function makePartnerTopics (
  env: Environment, { partner, partitions, principal, trial }: PartnerTopicsOptions
): Promise<MadeTopics> {
  const config = loadConfig(brokersConfig, env)
  const rules = accessRules(partner, principal)
  const rulesCreated = await withAdmin(kafkaConnectionOf(config), async admin => {
    const isAllowed = await allow(admin, rules)
    if (!isAllowed && !trial) throw new UsageError(NO_AUTHORIZER)
    await createTopics(admin, partnerTopics(partner, partitions), {
      replication: config.TOPIC_REPLICATION, minInsync: config.TOPIC_MIN_INSYNC,
    })
    return isAllowed
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
