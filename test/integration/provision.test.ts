import kafkajs from 'kafkajs'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type CheckOptions, findDifferences } from '../../deploy/provision/check.ts'
import { createTopics } from '../../deploy/provision/topics.ts'
import type { KafkaAdmin } from '../../services/runtime/kafka/client.ts'
import { withAdmin } from '../../services/runtime/kafka/admin.ts'
import {
  parseTopicPartitions, topicsWithPartitions,
} from '../../services/runtime/platform/topics.ts'
import { eventually } from '../support/eventually.ts'
import { stackEnv } from '../support/stacks/stack.ts'
import { startOwnBroker, type OwnBroker } from '../support/kafka/own-broker.ts'

const { ConfigResourceTypes, ConfigSource } = kafkajs
const TOPIC = 'rows.normalized.small'
const OWN = { 'cleanup.policy': 'delete', 'retention.ms': '604800000' }
const resource = { type: ConfigResourceTypes.TOPIC, name: TOPIC }

let broker: OwnBroker
beforeAll(async () => { broker = await startOwnBroker() })
afterAll(() => broker?.close())

async function provisioned (text = ''): Promise<readonly string[]> {
  const lines: string[] = []
  await createTopics({
    connection: broker,
    partitions: parseTopicPartitions(text),
    say: line => { lines.push(line) },
  })
  return lines
}

/** What is set for the topic itself. */
async function settings (admin: KafkaAdmin): Promise<Record<string, string>> {
  const { resources } = await admin.describeConfigs({
    includeSynonyms: false, resources: [resource],
  })
  return Object.fromEntries(resources.flatMap(one => one.configEntries)
    .filter(({ configSource }) => configSource === ConfigSource.TOPIC_CONFIG)
    .map(({ configName, configValue }) => [configName, configValue]))
}

async function partitions (admin: KafkaAdmin, topic = TOPIC): Promise<number | undefined> {
  return (await admin.fetchTopicMetadata({ topics: [topic] })).topics[0]?.partitions.length
}

it('provision refuses too few partitions of a topic until an operator adds some', async () => {
  await withAdmin(broker, admin =>
    admin.createTopics({ topics: [{ topic: TOPIC, numPartitions: 2 }], waitForLeaders: false }))
  await eventually(() =>
    expect(provisioned()).rejects.toThrow(`${TOPIC} has 2 partitions, fewer than 4`))
  await withAdmin(broker, admin =>
    admin.createPartitions({ topicPartitions: [{ topic: TOPIC, count: 4 }] }))
  await eventually(provisioned)
})

it('provision counts its own topics as there, and no others', async () => {
  await withAdmin(broker, admin =>
    admin.createTopics({ topics: [{ topic: 'another' }], waitForLeaders: false }))
  const { length } = topicsWithPartitions(parseTopicPartitions(''))
  await eventually(async () =>
    expect(await provisioned()).toContain(`topics: 0 created, ${length} were there`))
})

it('provision corrects its own settings and keeps those of operators', async () => {
  await provisioned()
  await withAdmin(broker, async admin => {
    const byHand = { 'max.message.bytes': '3000000', 'segment.ms': '600000' }
    const changed = { ...OWN, ...byHand, 'retention.ms': '1000' }
    await admin.alterConfigs({
      validateOnly: false,
      resources: [{
        ...resource,
        configEntries: Object.entries(changed).map(([name, value]) => ({ name, value })),
      }],
    })
    await admin.createPartitions({ topicPartitions: [{ topic: TOPIC, count: 6 }] })
    await eventually(async () => {
      expect(await settings(admin)).toEqual(changed)
      expect(await partitions(admin)).toBe(6)
    })
    expect(await provisioned()).toContain('topics: settings of 1 changed')
    await eventually(async () => {
      expect(await settings(admin)).toEqual({ ...OWN, ...byHand })
    })
    expect(await partitions(admin)).toBe(6)
    expect(await provisioned()).not.toContain('topics: settings of 1 changed')
  })
})

it('provision adds the configured partitions, and refuses what cannot be', async () => {
  const setting = '8,rows.normalized.bulk=12'
  await provisioned()
  await provisioned(setting)
  await withAdmin(broker, async admin => {
    const found = (name: string) => partitions(admin, name)
    await eventually(async () => {
      expect(await Promise.all([
        TOPIC, 'rows.normalized.bulk', 'jobs.settled', 'wallet.journal', 'rows.retry.bulk.whatsapp',
      ].map(found))).toEqual([8, 12, 8, 2, 1])
    })
  })
  expect((await provisioned(setting)).filter(line => line.includes('had'))).toEqual([])
  await expect(provisioned('rows.normalized=8')).rejects.toThrow('rows.normalized.bulk has 12 ' +
    'partitions and Kafka cannot remove any: set TOPIC_PARTITIONS to at least 12')
  await expect(provisioned('wallet.journal=4')).rejects.toThrow('wallet.journal has 2 ' +
    'partitions, not 4, and cannot grow: snapshots of wallets')
  // Without a setting, additional partitions are kept.
  await provisioned()
})

const asDeclared = (more: Partial<CheckOptions> = {}): Promise<readonly string[]> =>
  findDifferences({
    connection: broker,
    partitions: parseTopicPartitions(''),
    accessRules: 'off',
    registryUrl: stackEnv()['SCHEMA_REGISTRY_URL']!,
    ...more,
  }).then(differences => differences.map(one =>
    [one.of, one.setting, one.is, one.configured].join(' ')))

it('provision --check names what differs, and changes nothing', async () => {
  await provisioned()
  await eventually(async () => expect(await asDeclared()).toEqual([]))
  const byHand = [{ name: 'retention.ms', value: '1000' }]
  await withAdmin(broker, async admin => {
    await admin.alterConfigs({
      validateOnly: false, resources: [{ ...resource, configEntries: byHand }],
    })
    await admin.deleteTopics({ topics: ['publish.dead'] })
  })
  const differing = [
    'publish.dead topic missing there',
    `${TOPIC} retention.ms 1000 604800000`,
    `${TOPIC} replication 1 3`,
    expect.stringMatching(/^rows\.completed\.bulk partitions \d 12$/),
    'job.keys max.compaction.lag.ms 600000 1000',
  ]
  const configured = {
    partitions: parseTopicPartitions('rows.completed.bulk=12'),
    TOPIC_REPLICATION: 3,
    TOPIC_COMPACTION_LAG_MS: 1_000,
  }
  await eventually(async () => expect(await asDeclared(configured))
    .toEqual(expect.arrayContaining(differing)))
  // The registry has no subjects of another deployment.
  expect(await asDeclared({ connection: { ...broker, prefix: 'eu.' } }))
    .toEqual(expect.arrayContaining(['eu.job.keys-value schema missing registered']))
  await withAdmin(broker, async admin => {
    expect(await settings(admin)).toEqual({ 'retention.ms': '1000' })
    expect(await admin.listTopics()).not.toContain('publish.dead')
  })
})

it('provision leaves out a setting that the brokers refuse, and names it', async () => {
  const lag = { name: 'log.cleaner.min.compaction.lag.ms', value: '3600000' }
  await withAdmin(broker, async admin => {
    const name = String((await admin.describeCluster()).brokers[0]?.nodeId)
    await admin.alterConfigs({
      validateOnly: false,
      resources: [{ type: ConfigResourceTypes.BROKER, name, configEntries: [lag] }],
    })
    await admin.deleteTopics({ topics: ['job.keys', 'settle.dead'] })
    await eventually(async () => expect(await admin.listTopics()).not.toContain('job.keys'))
  })
  const refusal =
    'warning: topics: the brokers refuse max.compaction.lag.ms=600000 of job.keys'
  const said = await provisioned()
  expect(said).toContain(refusal)
  expect(said.filter(line => line.startsWith('warning'))).toEqual([refusal])
  await eventually(async () =>
    expect(await asDeclared())
      .toEqual(['job.keys max.compaction.lag.ms 9223372036854775807 600000']))
  // It is tried again each time.
  expect(await provisioned()).toContain(refusal)
})
