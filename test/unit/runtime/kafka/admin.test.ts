import type { Admin } from 'kafkajs'
import { describe, expect, it } from 'vitest'
import {
  createAccessRules, createTopics, deleteOtherAccessRules, topicSettingsOf, type AccessRule,
} from '../../../../services/runtime/kafka/admin.ts'

const topic = (name: string) => ({ name, partitions: 2, keepHours: 168, compact: false })
const rule: AccessRule = {
  principal: 'User:acme', kind: 'topic', name: 'feeds.acme.', prefix: true, operation: 'write',
}

describe('createTopics', () => {
  it('creates missing topics with their settings', async () => {
    const created: unknown[] = []
    const answers = [
      Object.assign(new Error('not yet'), { type: 'UNKNOWN_TOPIC_OR_PARTITION' }),
      [{ leader: 1 }, { leader: -1 }],
      [{ leader: 1 }, { leader: 2 }],
    ]
    const admin = {
      listTopics: async () => ['a'],
      createTopics: async (options: { topics: unknown[] }) => { created.push(...options.topics) },
      fetchTopicMetadata: async () => {
        const answer = answers.shift()
        if (answer instanceof Error) throw answer
        return { topics: [{ name: 'b', partitions: answer }] }
      },
    } as unknown as Admin
    await createTopics(admin, [topic('a'), topic('b')], { TOPIC_MIN_INSYNC: 2 })
    expect(created).toEqual([{
      topic: 'b',
      numPartitions: 2,
      replicationFactor: -1,
      configEntries: [
        { name: 'cleanup.policy', value: 'delete' },
        { name: 'retention.ms', value: '604800000' },
        { name: 'min.insync.replicas', value: '2' },
      ],
    }])
    expect(answers).toEqual([])
    await createTopics(admin, [topic('a')], {})
    expect(created).toHaveLength(1)
  })

  it('stops waiting when the brokers reject the user', async () => {
    const admin = {
      listTopics: async () => [],
      createTopics: async () => true,
      fetchTopicMetadata: async () => { throw new Error('denied') },
    } as unknown as Admin
    await expect(createTopics(admin, [topic('b')], {})).rejects.toThrow('denied')
  })

  it('sets a compression that every consumer of a partner topic can read', () => {
    const compression = { name: 'compression.type', value: 'gzip' }
    const foreign = topicSettingsOf(topic('feeds.acme.submitted'))
    expect(foreign.at(-1)).toEqual(compression)
    for (const name of ['feeds.acme.finished', 'jobs.settled']) {
      expect(topicSettingsOf(topic(name))).not.toContainEqual(compression)
    }
  })

  it('sets no retention for topics that are kept forever', () => {
    expect(topicSettingsOf({ ...topic('a'), keepHours: -1, compact: true })).toEqual([
      { name: 'cleanup.policy', value: 'compact,delete' },
      { name: 'retention.ms', value: '-1' },
      { name: 'max.compaction.lag.ms', value: '600000' },
      // Tombstones stay for a quarter.
      { name: 'delete.retention.ms', value: '7862400000' },
    ])
  })
})

describe('ACLs', () => {
  const adminThat = (createAcls: (options: unknown) => Promise<boolean>) =>
    ({ createAcls }) as unknown as Admin

  it('are created in the format of the brokers', async () => {
    const created: unknown[] = []
    const admin = adminThat(async options => {
      created.push(options)
      return true
    })
    const onGroup = { ...rule, kind: 'group', prefix: false, operation: 'read' } as const
    expect(await createAccessRules(admin, [rule, onGroup])).toBe(true)
    const common =
      { principal: 'User:acme', host: '*', permissionType: 3, resourceName: 'feeds.acme.' }
    expect(created).toEqual([{
      acl: [
        { ...common, operation: 4, resourceType: 2, resourcePatternType: 4 },
        { ...common, operation: 3, resourceType: 3, resourcePatternType: 3 },
      ],
    }])
  })

  it('are not created on brokers without an authorizer', async () => {
    const disabled = Object.assign(new Error(), { type: 'SECURITY_DISABLED' })
    expect(await createAccessRules(adminThat(() => Promise.reject(disabled)), [rule])).toBe(false)
    const other = Object.assign(new Error('away'), { type: 'OTHER' })
    await expect(createAccessRules(adminThat(() => Promise.reject(other)), [rule]))
      .rejects.toThrow('away')
  })

  it('that are not declared are deleted, and only those of the same principals', async () => {
    const entry = (principal: string, resourceName: string, operation: number) => ({
      resourceType: 2,
      resourceName,
      resourcePatternType: 4,
      acls: [{ principal, host: '*', operation, permissionType: 3 }],
    })
    const deleted: unknown[] = []
    const adminWith = (resources: readonly unknown[]) => ({
      describeAcls: async (filter: unknown) => {
        // Only what is allowed, of any kind, on anything.
        expect(filter).toEqual({
          resourceType: 1, resourcePatternType: 1, operation: 1, permissionType: 3,
        })
        return { resources }
      },
      deleteAcls: async ({ filters }: { filters: unknown[] }) => { deleted.push(...filters) },
    }) as unknown as Admin
    const wanted = entry('User:acme', 'feeds.acme.', 4)
    const resources = [
      wanted, entry('User:acme', 'feeds.acme.', 3), entry('User:acme', '', 4),
      entry('User:other', 'feeds.', 4),
    ]
    expect(await deleteOtherAccessRules(adminWith(resources), [rule])).toBe(2)
    const common = {
      principal: 'User:acme', host: '*', permissionType: 3, resourceType: 2, resourcePatternType: 4,
    }
    expect(deleted).toEqual([
      { ...common, resourceName: 'feeds.acme.', operation: 3 },
      { ...common, resourceName: '', operation: 4 },
    ])
    expect(await deleteOtherAccessRules(adminWith([wanted]), [rule])).toBe(0)
    expect(deleted).toHaveLength(2)
  })
})
