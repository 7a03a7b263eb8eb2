import kafkajs from 'kafkajs'
import {
  applySettings, createTopics as create, type Setting, toTopicSettings, withAdmin,
  type TopicsOptions,
} from '../../services/runtime/kafka/admin.ts'
import type { KafkaAdmin } from '../../services/runtime/kafka/client.ts'
import type { KafkaConnection } from '../../services/runtime/kafka/connection.ts'
import {
  allTopics, configuredPartitions, DEFAULT_PARTITIONS, logicalTopic, type RealTopic,
  type TopicPartitions, TOPICS_BY_JOB, topicsWithPartitions, whyFixed,
} from '../../services/runtime/platform/topics.ts'

export type TopicOptions = TopicsOptions & {
  readonly connection: KafkaConnection
  /** Those of services/topology.ts by default. */
  readonly partitions?: TopicPartitions
  readonly say: (line: string) => void
}

// Node detects only some exports of a CommonJS library; the others are on its default export.
const { ConfigResourceTypes, ConfigSource } = kafkajs

/**
 * Creates missing topics, adds configured partitions to others, and applies the settings of the
 * topology to all. Never changes other settings or additional partitions, which belong to
 * operators.
 * @throws Error that names the topics whose partitions cannot be as configured; then nothing was
 * changed.
 */
export async function createTopics (options: TopicOptions): Promise<void> {
  const { connection, partitions = DEFAULT_PARTITIONS, say } = options
  const wanted = topicsWithPartitions(partitions)
  await withAdmin(connection, async admin => {
    const existing = new Set(await admin.listTopics())
    const missing = wanted.filter(({ name }) => !existing.has(name))
    const there = wanted.filter(({ name }) => existing.has(name))
    const grown = await planGrowth(admin, there, partitions)
    await create(admin, missing, options)
    say(`topics: ${missing.length} created, ${there.length} were there`)
    await addPartitions(admin, grown, say)
    if (there.length > 0) await alignSettings(admin, there, options)
  })
}

type Growth = { readonly name: string, readonly from: number, readonly to: number }

/** The topics with fewer partitions than wanted. Checks all before anything is changed. */
async function planGrowth (
  admin: KafkaAdmin, there: readonly RealTopic[], configured: TopicPartitions
): Promise<readonly Growth[]> {
  if (there.length === 0) return []
  const { topics } = await admin.fetchTopicMetadata({ topics: there.map(({ name }) => name) })
  const current = new Map(topics.map(({ name, partitions }) => [name, partitions.length]))
  const changes = there.map(({ name, partitions }) =>
    ({ name, from: current.get(name) ?? partitions, to: partitions }))
  const faults = changes.flatMap(change => findFault(change, configured) ?? [])
  if (faults.length > 0) throw new Error(faults.join('; '))
  return changes.filter(({ from, to }) => from < to)
}

/** Why a change is impossible. Partitions that nobody configured may be more than wanted. */
function findFault ({ name, from, to }: Growth, configured: TopicPartitions): string | undefined {
  if (from > to && configuredPartitions(configured, name) !== undefined) {
    return `${name} has ${from} partitions and Kafka cannot remove any: set TOPIC_PARTITIONS to ` +
      `at least ${from}`
  }
  if (from >= to) return undefined
  const why = whyFixed(name)
  if (why !== undefined) {
    return `${name} has ${from} partitions, not ${to}, and cannot grow: ${why}`
  }
  return from < defaultCount(name)
    ? `${name} has ${from} partitions, fewer than ${defaultCount(name)}, by which all messages ` +
      'of a job meet in one. Wait until no job is open, then add some with kafka-topics --alter'
    : undefined
}

/** The lowest number of partitions that can grow while jobs are open. */
function defaultCount (name: string): number {
  const topic = logicalTopic(name)?.topic
  if (topic === undefined || !TOPICS_BY_JOB.includes(topic)) return 0
  return allTopics().find(candidate => candidate.name === name)?.partitions ?? 0
}

async function addPartitions (
  admin: KafkaAdmin, grown: readonly Growth[], say: (line: string) => void
): Promise<void> {
  if (grown.length === 0) return
  await admin.createPartitions({
    topicPartitions: grown.map(({ name, to }) => ({ topic: name, count: to })),
  })
  for (const { name, from, to } of grown) say(`topics: ${name} has ${to} partitions, had ${from}`)
}

/** The settings of topics, with what is set for the topic itself. */
export async function readSettings (admin: KafkaAdmin, topics: readonly RealTopic[]) {
  const { resources } = await admin.describeConfigs({
    includeSynonyms: false,
    resources: topics.map(({ name }) => ({ type: ConfigResourceTypes.TOPIC, name })),
  })
  return new Map(resources.map(({ resourceName, configEntries }) => [resourceName, {
    all: new Map(configEntries.map(({ configName, configValue }) => [configName, configValue])),
    ownOfTopic: configEntries
      .filter(({ configSource }) => configSource === ConfigSource.TOPIC_CONFIG)
      .map(({ configName: name, configValue: value }): Setting => ({ name, value })),
  }]))
}

/** Altering replaces all settings of a topic, so its current settings are sent as well. */
async function alignSettings (
  admin: KafkaAdmin, there: readonly RealTopic[], options: TopicOptions
): Promise<void> {
  const current = await readSettings(admin, there)
  const differing = there.map(topic => ({ topic, settings: toTopicSettings(topic, options) }))
    .filter(({ topic, settings }) => settings.some(({ name, value }) =>
      current.get(topic.name)?.all.get(name) !== value))
  if (differing.length === 0) return
  await applySettings(differing, {
    say: options.say,
    apply: (topics, validateOnly) => admin.alterConfigs({
      validateOnly,
      resources: topics.map(({ topic: { name }, settings }) => {
        const kept = (current.get(name)?.ownOfTopic ?? [])
          .filter(setting => !settings.some(wanted => wanted.name === setting.name))
        return {
          type: ConfigResourceTypes.TOPIC, name, configEntries: [...kept, ...settings],
        }
      }),
    }),
  })
  options.say(`topics: settings of ${differing.length} changed`)
}
