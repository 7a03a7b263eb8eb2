import kafkajs, { type Admin } from 'kafkajs'
import {
  createTopics as create, settingsOf, withAdmin, type TopicsOptions,
} from '../../services/lib/kafka/admin.ts'
import type { KafkaConnection } from '../../services/lib/kafka/connection.ts'
import { allTopics, type RealTopic } from '../../services/lib/topics.ts'

export { settingsOf }

export type TopicOptions = TopicsOptions & {
  readonly connection: KafkaConnection
  readonly say: (line: string) => void
}

// Node finds only some names of a CommonJS library; the others are on its default export.
const { ConfigResourceTypes } = kafkajs

/** Creates the topics that are missing and gives all of them the settings of the topology. */
export async function createTopics (options: TopicOptions): Promise<void> {
  await withAdmin(options.connection, async admin => {
    const missing = await createMissing(admin, options)
    const known = allTopics().filter(({ name }) => !missing.has(name))
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

/** Keys are spread by the number of partitions, so it can't be changed under running jobs. */
async function checkPartitions (admin: Admin, known: readonly RealTopic[]): Promise<void> {
  if (known.length === 0) return
  const { topics } = await admin.fetchTopicMetadata({ topics: known.map(({ name }) => name) })
  const found = new Map(topics.map(({ name, partitions }) => [name, partitions.length]))
  const wrong = known.filter(({ name, partitions }) => found.get(name) !== partitions)
  if (wrong.length === 0) return
  const list = wrong.map(({ name, partitions }) =>
    `${name} has ${found.get(name)} partitions, not ${partitions}`)
  throw new Error(`${list.join('; ')}. Drain the topic, then let the topology and the brokers ` +
    'agree: set the number in services/topology.ts, or have the topic made anew.')
}

async function alignSettings (
  admin: Admin, known: readonly RealTopic[], { minInsync, say }: TopicOptions
): Promise<void> {
  const differing = await differingTopics(admin, known, minInsync)
  if (differing.length === 0) return
  await admin.alterConfigs({
    validateOnly: false,
    resources: differing.map(topic => ({
      type: ConfigResourceTypes.TOPIC,
      name: topic.name,
      configEntries: [...settingsOf(topic, minInsync)],
    })),
  })
  say(`topics: settings of ${differing.length} changed`)
}

/**
 * Altering replaces all settings of a topic, so it is done only where something differs. A setting
 * that somebody added by hand is lost then.
 */
async function differingTopics (
  admin: Admin, known: readonly RealTopic[], minInsync: number | undefined
): Promise<readonly RealTopic[]> {
  if (known.length === 0) return []
  const { resources } = await admin.describeConfigs({
    includeSynonyms: false,
    resources: known.map(({ name }) => ({ type: ConfigResourceTypes.TOPIC, name })),
  })
  const found = new Map(resources.map(({ resourceName, configEntries }) =>
    [resourceName, new Map(configEntries.map(entry => [entry.configName, entry.configValue]))]))
  return known.filter(topic => settingsOf(topic, minInsync)
    .some(({ name, value }) => found.get(topic.name)?.get(name) !== value))
}
