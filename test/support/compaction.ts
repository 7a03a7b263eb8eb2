import kafkajs from 'kafkajs'
import { topicSettingsOf, withAdmin } from '../../services/kafka/admin.ts'
import { allTopics } from '../../services/platform/topics.ts'

// Node finds only some names of a CommonJS library; the others are on its default export.
const { ConfigResourceTypes } = kafkajs

type Entries = Readonly<Record<string, string>>

/** What makes a broker compact at once what it would compact within minutes. */
const AT_ONCE: Entries = {
  'max.compaction.lag.ms': '500',
  'min.cleanable.dirty.ratio': '0.01',
  'file.delete.delay.ms': '100',
}

async function alter (brokers: readonly string[], broker: Entries, topic: Entries): Promise<void> {
  const entries = (of: Entries) => Object.entries(of).map(([name, value]) => ({ name, value }))
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
        { type: ConfigResourceTypes.TOPIC, name: 'job.keys', configEntries: entries(topic) },
      ],
    })
  })
}

/** Has the topic of data keys compacted without delay; what is returned undoes that. */
export async function compactAtOnce (brokers: readonly string[]): Promise<() => Promise<void>> {
  const own = topicSettingsOf(allTopics().find(({ name }) => name === 'job.keys')!, undefined)
  const usual = Object.fromEntries(own.map(({ name, value }) => [name, value]))
  await alter(brokers, { 'log.cleaner.backoff.ms': '200' }, { ...usual, ...AT_ONCE })
  return () => alter(brokers, {}, usual)
}
