import kafkajs, { Kafka, logLevel, type Admin } from 'kafkajs'
import { allTopics, type RealTopic } from '../../services/lib/topics.ts'

export type TopicOptions = {
  readonly brokers: readonly string[]
  /** Copies of each topic; the brokers' own setting when undefined. */
  readonly replication: number | undefined
  readonly minInsync: number | undefined
  readonly say: (line: string) => void
}

type Setting = { readonly name: string, readonly value: string }

const HOUR_MS = 3_600_000

// Node finds only some names of a CommonJS library; the others are on its default export.
const { ConfigResourceTypes } = kafkajs

/** Creates the topics that are missing and gives all of them the settings of the topology. */
export async function createTopics (options: TopicOptions): Promise<void> {
  const kafka = new Kafka({
    clientId: 'provision', brokers: [...options.brokers], logLevel: logLevel.NOTHING,
  })
  const admin = kafka.admin()
  await admin.connect()
  try {
    const missing = await createMissing(admin, options)
    const known = allTopics().filter(({ name }) => !missing.has(name))
    await checkPartitions(admin, known)
    await alignSettings(admin, known, options)
  } finally {
    await admin.disconnect()
  }
}

/** How long messages are kept, and how many copies have to acknowledge them. */
export function settingsOf (topic: RealTopic, minInsync: number | undefined): readonly Setting[] {
  const { keepHours, compact } = topic
  const settings = [
    { name: 'cleanup.policy', value: compact ? 'compact,delete' : 'delete' },
    { name: 'retention.ms', value: String(keepHours < 0 ? -1 : keepHours * HOUR_MS) },
  ]
  if (minInsync === undefined) return settings
  return [...settings, { name: 'min.insync.replicas', value: String(minInsync) }]
}

async function createMissing (
  admin: Admin, { replication = -1, minInsync, say }: TopicOptions
): Promise<ReadonlySet<string>> {
  const existing = new Set(await admin.listTopics())
  const missing = allTopics().filter(({ name }) => !existing.has(name))
  if (missing.length > 0) {
    await admin.createTopics({
      waitForLeaders: true,
      timeout: 30_000,
      topics: missing.map(topic => ({
        topic: topic.name,
        numPartitions: topic.partitions,
        replicationFactor: replication,
        configEntries: [...settingsOf(topic, minInsync)],
      })),
    })
  }
  say(`topics: ${missing.length} created, ${existing.size} were there`)
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
