import Type from 'typebox'
import type { Environment } from '../runtime/platform/command-environment.ts'
import { loadConfig, pick, commonConfig, kafkaKeys } from '../runtime/platform/config.ts'
import {
  createAccessRules, createTopics, withAdmin, type AccessRule,
} from '../runtime/kafka/admin.ts'
import { kafkaConnectionOf } from '../runtime/kafka/connection.ts'
import { UsageError } from '../runtime/platform/run-command.ts'
import { partnerTopics, topicName } from '../runtime/platform/topics.ts'

type PartnerTopics = {
  readonly submitted: string
  readonly finished: string
  readonly rules: readonly AccessRule[]
  /** False on brokers without an authorizer, where every client has access. */
  readonly rulesCreated: boolean
}

export type PartnerTopicsOptions = {
  readonly partner: string
  readonly partitions: number
  /** The Kafka principal of the partner, for example `User:acme`. */
  readonly principal: string
  /** Accepts brokers without an authorizer. */
  readonly trial: boolean
}

const brokersConfig = Type.Object({
  ...pick(commonConfig, kafkaKeys),
  TOPIC_REPLICATION: Type.Optional(Type.Integer({
    minimum: 1, description: 'Replicas of every topic; the default of the brokers when not set.',
  })),
  TOPIC_MIN_INSYNC: Type.Optional(Type.Integer({
    minimum: 1,
    description: 'Replicas that acknowledge a write; the default of the brokers when not set.',
  })),
})

const NO_AUTHORIZER = 'The brokers have no authorizer, so every Kafka client can read and write ' +
  'this feed. Set one up (deploy/docs/security.md), or accept the risk for a trial: --trial'

/**
 * Creates the rules that give a partner access to its own two topics only, then the topics.
 * Existing rules and topics remain unchanged.
 * @throws UsageError when the brokers have no authorizer, unless `trial` is set.
 */
export async function createPartnerTopics (
  env: Environment, { partner, partitions, principal, trial }: PartnerTopicsOptions
): Promise<PartnerTopics> {
  const config = loadConfig(brokersConfig, env)
  const rules = accessRules(partner, principal)
  const rulesCreated = await withAdmin(kafkaConnectionOf(config), async admin => {
    const isAllowed = await createAccessRules(admin, rules)
    if (!isAllowed && !trial) throw new UsageError(NO_AUTHORIZER)
    await createTopics(admin, partnerTopics(partner, partitions), {
      replication: config.TOPIC_REPLICATION, minInsync: config.TOPIC_MIN_INSYNC,
    })
    return isAllowed
  })
  const nameOf = (topic: 'feeds.submitted' | 'feeds.finished') => topicName(topic, { partner })
  return {
    submitted: nameOf('feeds.submitted'), finished: nameOf('feeds.finished'), rules, rulesCreated,
  }
}

/** The rights of a partner: write contacts, and read results in its own consumer groups. */
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
