import kafkajs, { type Admin } from 'kafkajs'
import {
  createTopics as create, topicSettingsOf, withAdmin, type TopicsOptions,
} from '../../services/kafka/admin.ts'
import type { KafkaConnection } from '../../services/kafka/connection.ts'
import { allTopics, type RealTopic } from '../../services/platform/topics.ts'

export { topicSettingsOf }

export type TopicOptions = TopicsOptions & {
  readonly connection: KafkaConnection
  readonly say: (line: string) => void
}

// Node detects only some exports of a CommonJS library; the others are on its default export.
const { ConfigResourceTypes, ConfigSource } = kafkajs

/**
 * Creates missing topics and applies the settings of the topology to all. Never changes other
 * settings or additional partitions, which belong to operators.
 * @throws Error that names the topics with fewer partitions than in the topology.
 */
export async function createTopics (options: TopicOptions): Promise<void> {
  await withAdmin(options.connection, async admin => {
    const missing = await createMissing(admin, options)
    const known = allTopics().filter(({ name }) => !missing.has(name))
    if (known.length === 0) return
    await checkPartitions(admin, known)
    await alignSettings(admin, known, options)
  })
}

async function createMissing (
  admin: Admin, options: TopicOptions
): Promise<ReadonlySet<string>> {
  const existing = new Set(await admin.listTopics())
  const missing = allTopics().filter(({ name }) => !existing.has(name))
  await create(admin, missing, options)
  options.say(`topics: ${missing.length} created, ${existing.size} were there`)
  return new Set(missing.map(({ name }) => name))
}

/** New partitions change the partition of keys, so only an operator can choose the time. */
async function checkPartitions (admin: Admin, known: readonly RealTopic[]): Promise<void> {
  const { topics } = await admin.fetchTopicMetadata({ topics: known.map(({ name }) => name) })
  const found = new Map(topics.map(({ name, partitions }) => [name, partitions.length]))
  const short = known.filter(({ name, partitions }) => (found.get(name) ?? 0) < partitions)
  if (short.length === 0) return
  const list = short.map(({ name, partitions }) =>
    `${name} has ${found.get(name)} partitions, not ${partitions}`)
  throw new Error(`${list.join('; ')}. Wait until no job is open, then add partitions with ` +
    'kafka-topics --alter')
}

/** Altering replaces all settings of a topic, so its current settings are sent as well. */
async function alignSettings (
  admin: Admin, known: readonly RealTopic[], { minInsync, say }: TopicOptions
): Promise<void> {
  const { resources } = await admin.describeConfigs({
    includeSynonyms: false,
    resources: known.map(({ name }) => ({ type: ConfigResourceTypes.TOPIC, name })),
  })
  const entriesOf = new Map(resources.map(one => [one.resourceName, one.configEntries]))
  const differing = known.flatMap(topic => {
    const entries = entriesOf.get(topic.name) ?? []
    const found = new Map(entries.map(one => [one.configName, one.configValue]))
    const own = topicSettingsOf(topic, minInsync)
    if (own.every(({ name, value }) => found.get(name) === value)) return []
    const kept = entries.filter(({ configName, configSource }) =>
      configSource === ConfigSource.TOPIC_CONFIG && !own.some(({ name }) => name === configName))
    const configEntries = [
      ...kept.map(({ configName: name, configValue: value }) => ({ name, value })), ...own,
    ]
    return [{ type: ConfigResourceTypes.TOPIC, name: topic.name, configEntries }]
  })
  if (differing.length === 0) return
  await admin.alterConfigs({ validateOnly: false, resources: differing })
  say(`topics: settings of ${differing.length} changed`)
}
