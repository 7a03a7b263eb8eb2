import kafkajs from 'kafkajs'
import { toTopicSettings, withAdmin } from '../../../services/runtime/kafka/admin.ts'
import { allTopics } from '../../../services/runtime/platform/topics.ts'

// Node finds only some names of a CommonJS library; the others are on its default export.
const { ConfigResourceTypes } = kafkajs

type Entries = Readonly<Record<string, string>>

/** What makes a broker compact at once what it would compact within minutes. */
const AT_ONCE: Entries = {
  'max.compaction.lag.ms': '500',
  'min.cleanable.dirty.ratio': '0.01',
  'file.delete.delay.ms': '100',
}

const TOPICS = ['job.keys', 'organization.keys']

type Settings = (topic: string) => Entries

async function alter (brokers: readonly string[], broker: Entries, of: Settings): Promise<void> {
  const entries = (named: Entries) =>
    Object.entries(named).map(([name, value]) => ({ name, value }))
  await withAdmin({ brokers }, async admin => {
    const { brokers: [first] } = await admin.describeCluster()
    await admin.alterConfigs({
      validateOnly: false,
      resources: [
        {
          type: ConfigResourceTypes.BROKER,
          name: String(first?.nodeId),
          configEntries: entries(broker),
        },
        ...TOPICS.map(name =>
          ({ type: ConfigResourceTypes.TOPIC, name, configEntries: entries(of(name)) })),
      ],
    })
  })
}

/** Has the topics of keys compacted without delay; what is returned undoes that. */
export async function compactAtOnce (brokers: readonly string[]): Promise<() => Promise<void>> {
  const usual: Settings = topic => {
    const own = toTopicSettings(allTopics().find(({ name }) => name === topic)!)
    return Object.fromEntries(own.map(({ name, value }) => [name, value]))
  }
  const atOnce: Settings = topic => ({ ...usual(topic), ...AT_ONCE })
  await alter(brokers, { 'log.cleaner.backoff.ms': '200' }, atOnce)
  return () => alter(brokers, {}, usual)
}
