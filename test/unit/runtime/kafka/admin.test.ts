import type { Admin } from 'kafkajs'
import { describe, expect, it } from 'vitest'
import {
  createTopics, fetchLags, listAccessRules, stageRules, toTopicSettings, type AccessRule,
  type OffsetsAdmin,
} from '../../../../services/runtime/kafka/admin.ts'
import {
  allTopics, FEED_GROUPS, listSubscriptions, topicName,
} from '../../../../services/runtime/platform/topics.ts'
import { LANES, STAGES, topology, type StageName } from '../../../../services/topology.ts'

const topic = (name: string) => ({ name, partitions: 2, keepHours: 168, compact: false })

describe('createTopics', () => {
  it('creates missing topics, and waits until each of their partitions has a leader', async () => {
    const created: string[] = []
    const answers = [
      Object.assign(new Error('not yet'), { type: 'UNKNOWN_TOPIC_OR_PARTITION' }),
      [{ leader: 1 }, { leader: -1 }],
      [{ leader: 1 }, { leader: 2 }],
    ]
    const admin = {
      listTopics: async () => ['a'],
      createTopics: async ({ topics }: { topics: { topic: string }[] }) => {
        created.push(...topics.map(({ topic }) => topic))
      },
      fetchTopicMetadata: async () => {
        const answer = answers.shift()
        if (answer instanceof Error) throw answer
        return { topics: [{ name: 'b', partitions: answer }] }
      },
    } as unknown as Admin
    await createTopics(admin, [topic('a'), topic('b')], {})
    expect([created, answers]).toEqual([['b'], []])
  })

  it('sets a compression that every consumer of a partner topic can read', () => {
    const compression = { name: 'compression.type', value: 'gzip' }
    const foreign = toTopicSettings(topic('feeds.acme.submitted'))
    expect(foreign.at(-1)).toEqual(compression)
    for (const name of ['feeds.acme.finished', 'jobs.settled']) {
      expect(toTopicSettings(topic(name))).not.toContainEqual(compression)
    }
  })

  it('sets no retention for topics that are kept forever', () => {
    expect(toTopicSettings({ ...topic('a'), keepHours: -1, compact: true })).toEqual([
      { name: 'cleanup.policy', value: 'compact,delete' },
      { name: 'retention.ms', value: '-1' },
      { name: 'max.compaction.lag.ms', value: '600000' },
      // Tombstones stay for a quarter.
      { name: 'delete.retention.ms', value: '7862400000' },
    ])
  })
})

type Access = Pick<AccessRule, 'kind' | 'name' | 'operation'>

/** The answer of a broker with only these rules: reading and writing imply describing. */
const allows = (rules: readonly AccessRule[], { kind, name, operation }: Access): boolean =>
  rules.some(rule => rule.kind === kind &&
    (rule.operation === operation || operation === 'describe') &&
    (rule.prefix ? name.startsWith(rule.name) : name === rule.name))

const may = (stage: StageName, operation: AccessRule['operation'], name: string) =>
  allows(listAccessRules(stage), { kind: 'topic', operation, name })

/** Stages that may do something with a topic. */
const those = (operation: AccessRule['operation'], name: string) =>
  STAGES.filter(stage => may(stage, operation, name))

const bulk = { lane: 'bulk', service: 'whatsapp', partner: 'acme' } as const

describe('the ACLs of stages', () => {
  it.each<[AccessRule['operation'], string, readonly StageName[]]>([
    ['write', 'wallet.journal', ['lookup', 'settle', 'ledger']],
    ['read', 'wallet.journal', ['ledger']],
    ['write', 'job.keys', ['ingest', 'feed', 'ledger']],
    ['read', 'job.keys', STAGES],
  ])('let %s %s only %j', (operation, topic, stages) => {
    expect(those(operation, topic)).toEqual(stages)
  })

  it('let ingest and feed read no rows', () => {
    const rows = allTopics().map(({ name }) => name).filter(name => name.startsWith('rows.'))
    expect(rows.length).toBeGreaterThan(20)
    const read = rows.filter(name => may('ingest', 'read', name) || may('feed', 'read', name))
    expect(read).toEqual([])
  })

  it('let ingest and feed see the partitions that a job is spread over', () => {
    for (const name of ['rows.normalized.small', 'rows.completed.bulk']) {
      expect(['ingest', 'feed', 'deliver'].map(stage => may(stage as StageName, 'describe', name)))
        .toEqual([true, true, false])
    }
  })

  it.each(STAGES)('let %s read and write its topics of the topology, in its groups', stage => {
    const { reads, writes } = topology.stages[stage]
    expect(reads.map(topic => may(stage, 'read', topicName(topic, bulk)))).not.toContain(false)
    expect(writes.map(topic => may(stage, 'write', topicName(topic, bulk)))).not.toContain(false)
    const groups = listSubscriptions(stage, { lanes: LANES, services: ['whatsapp'] })
      .map(({ group }) => group)
    const others = STAGES.filter(other => other !== stage)
    const named = [...groups, `${stage}.1.last-value.x`]
    const who = (name: string, operation: 'read' | 'delete') => [stage, ...others]
      .filter(one => allows(listAccessRules(one), { kind: 'group', name, operation }))
    expect(named.map(name => who(name, 'read'))).toEqual(named.map(() => [stage]))
    expect(named.map(name => who(name, 'delete'))).toEqual(named.map(() => [stage]))
  })

  it('let each stage write only its own dead letters', () => {
    const dead = allTopics().map(({ name }) => name).filter(name => name.endsWith('.dead'))
    expect(dead.map(name => those('write', name))).toEqual(dead.map(name => [name.split('.')[0]]))
    expect(dead.map(name => those('read', name)).flat()).toEqual([])
  })

  it('let ledger describe all groups and their topics, and read for recovery only', () => {
    const rules = listAccessRules('ledger')
    const all = STAGES.flatMap(stage => listSubscriptions(stage))
    expect(all.length).toBeGreaterThan(20)
    const unseen = all.filter(({ group, topics }) =>
      !allows(rules, { kind: 'group', name: group, operation: 'describe' }) ||
      topics.some(name => !may('ledger', 'describe', name)))
    expect(unseen).toEqual([])
    const read = allTopics().map(({ name }) => name).filter(name => may('ledger', 'read', name))
    expect(read).toEqual([
      'rows.completed.small', 'rows.completed.bulk', 'wallet.journal', 'job.keys', 'access.log',
      'organization.keys', 'wallet.snapshots', 'accounts', 'contact.lists',
    ])
  })

  it('let feed read in the groups of partner topics, and no other stage', () => {
    const readers = STAGES.filter(stage => FEED_GROUPS.every(name =>
      allows(listAccessRules(stage), { kind: 'group', name, operation: 'read' })))
    expect(readers).toEqual(['feed'])
  })

  it('have no duplicates', () => {
    const texts = stageRules().map(rule => JSON.stringify(rule))
    expect(new Set(texts).size).toBe(texts.length)
    expect(new Set(stageRules().map(({ principal }) => principal)))
      .toEqual(new Set(STAGES.map(stage => `User:${stage}`)))
  })
})

it('the consumer lag starts at the log start offset', async () => {
  const brokers: OffsetsAdmin = {
    fetchTopicOffsets: async () => [0, 1, 2].map(partition =>
      ({ partition, offset: '20', low: '5', high: '20' })),
    fetchOffsets: async ({ topics = [] }) => (topics as string[]).map(topic => ({
      topic,
      partitions: ['-1', '2', '17'].map((offset, partition) =>
        ({ partition, offset, metadata: null })),
    })),
  }
  const lags = (await fetchLags(brokers)).filter(({ topic }) => topic === 'wallet.journal')
  expect(lags.map(({ lag }) => lag)).toEqual([15, 15, 3])
})
