import {
  stageRules, compareAccessRules, NO_AUTHORIZER, toTopicSettings, withAdmin,
} from '../../services/runtime/kafka/admin.ts'
import type { KafkaAdmin } from '../../services/runtime/kafka/client.ts'
import { kafkaErrorType } from '../../services/runtime/kafka/connection.ts'
import {
  connectRegistry, ownSchemas, describeRegistryFailure,
} from '../../services/runtime/kafka/registry.ts'
import { isDenial } from '../../services/runtime/platform/errors.ts'
import {
  configuredPartitions, topicsWithPartitions, whyFixed,
} from '../../services/runtime/platform/topics.ts'
import { readSettings, type TopicOptions } from './topics.ts'

/** What an installation has, what it is configured to have, and what to do about it. */
type Difference = {
  readonly of: string
  readonly setting: string
  readonly is: string
  readonly configured: string
  readonly do: string
}

export type CheckOptions = Omit<TopicOptions, 'say'> & {
  readonly partitions: NonNullable<TopicOptions['partitions']>
  readonly accessRules: 'manage' | 'check' | 'off'
  readonly registryUrl: string
  readonly registryPasswordFile?: string | undefined
}

const PROVISION = 'run provision'

/**
 * Compares topics, rules of access and schemas with what is configured, and changes nothing.
 * @throws Error if the brokers or the registry do not answer.
 */
export async function findDifferences (options: CheckOptions): Promise<readonly Difference[]> {
  const { connection, accessRules } = options
  const [ofBrokers, ofSchemas] = await Promise.all([
    withAdmin(connection, async admin => [
      ...await compareTopics(admin, options),
      ...accessRules === 'off' ? [] : await compareRules(admin, connection.prefix),
    ]),
    compareSchemas(options),
  ])
  return [...ofBrokers, ...ofSchemas]
}

/** Which variable changes a setting of topics, besides provisioning it. */
const VARIABLES: Readonly<Record<string, string>> = {
  'min.insync.replicas': 'TOPIC_MIN_INSYNC',
  'max.compaction.lag.ms': 'TOPIC_COMPACTION_LAG_MS',
  'compression.type': 'TOPIC_COMPRESSION',
}

async function compareTopics (
  admin: KafkaAdmin, options: CheckOptions
): Promise<readonly Difference[]> {
  const { partitions: counts, TOPIC_REPLICATION: replication } = options
  const wanted = topicsWithPartitions(counts)
  const existing = new Set(await admin.listTopics())
  const there = wanted.filter(({ name }) => existing.has(name))
  const missing = wanted.filter(({ name }) => !existing.has(name))
    .map(({ name }) => difference(name, ['topic', 'missing', 'there', PROVISION]))
  if (there.length === 0) return missing
  const { topics } = await admin.fetchTopicMetadata({ topics: there.map(({ name }) => name) })
  const partitionsByTopic = new Map(topics.map(topic => [topic.name, topic.partitions]))
  const settingsByTopic = await readSettings(admin, there)
  const differing = there.flatMap(topic => {
    const partitions = partitionsByTopic.get(topic.name) ?? []
    const copies = Math.min(...partitions.map(({ replicas }) => replicas.length))
    const isAsMany = configuredPartitions(counts, topic.name) === undefined
      ? partitions.length >= topic.partitions
      : partitions.length === topic.partitions
    return [
      ...isAsMany
        ? []
        : [['partitions', partitions.length, topic.partitions,
            partitions.length > topic.partitions
              ? 'set TOPIC_PARTITIONS: Kafka removes none'
              : whyFixed(topic.name) === undefined
                ? PROVISION
                : 'create the topic again, empty: it cannot grow'] as const],
      ...replication === undefined || copies === replication
        ? []
        : [['replication', copies, replication,
            'kafka-reassign-partitions, or set TOPIC_REPLICATION'] as const],
      ...toTopicSettings(topic, options).flatMap(({ name, value }) => {
        const current = settingsByTopic.get(topic.name)?.all.get(name) ?? 'hidden'
        if (current === value) return []
        const variable = VARIABLES[name]
        return [[name, current, value, variable === undefined
          ? PROVISION
          : `${PROVISION}; if refused, set ${variable}`] as const]
      }),
    ].map(fields => difference(topic.name, fields))
  })
  return [...missing, ...differing]
}

function difference (
  of: string,
  [setting, is, configured, action]: readonly [string, string | number, string | number, string]
): Difference {
  return { of, setting, is: String(is), configured: String(configured), do: action }
}

async function compareRules (
  admin: KafkaAdmin, prefix: string | undefined
): Promise<readonly Difference[]> {
  const compared = await compareAccessRules(admin, stageRules(prefix)).catch((error: unknown) => {
    const type = kafkaErrorType(error)
    if (type !== NO_AUTHORIZER && !isDenial(type)) throw error
    return type
  })
  if (compared === NO_AUTHORIZER) return []
  if (typeof compared === 'string') {
    return [difference('rules of access', ['access', `hidden (${compared})`, 'visible',
      'allow this user to describe them, or set KAFKA_ACCESS_RULES=off'])]
  }
  const { missing, surplus } = compared
  return [
    ...missing.map(({ principal, operation, kind, name, prefix }) => difference(
      `${kind} ${name}${prefix ? '*' : ''}`,
      ['access', 'missing', `${principal} ${operation}`, `${PROVISION}, or allow it`])),
    ...surplus.map(({ principal, resourceName }) => difference(
      resourceName, ['access', `a rule of ${principal}`, 'none', `${PROVISION}, or delete it`])),
  ]
}

async function compareSchemas (
  { registryUrl: url, registryPasswordFile, connection: { prefix = '' } }: CheckOptions
): Promise<readonly Difference[]> {
  const registry = connectRegistry(url, registryPasswordFile)
  const differences: Difference[] = []
  for (const [name, { json }] of ownSchemas()) {
    const subject = prefix + name
    try {
      // The library declares another type, but sends any JSON.
      await registry.getRegistryIdBySchema(subject, json as never)
    } catch (cause) {
      // Of a schema that is not registered, the client drops the status 404.
      if (cause instanceof Error && 'status' in cause) {
        throw new Error(describeRegistryFailure(url, cause), { cause })
      }
      differences.push(difference(subject, ['schema', 'missing', 'registered', PROVISION]))
    }
  }
  return differences
}
