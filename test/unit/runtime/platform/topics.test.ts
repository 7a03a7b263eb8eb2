import { describe, expect, it } from 'vitest'
import {
  allTopics, configuredPartitions, FEED_GROUPS, chooseFeedGroup, fewestPartitions, logicalTopic,
  messageKey, parseTopicPartitions, partnerTopics, topicName, topicPattern, topicsWithPartitions,
  whyFixed,
} from '../../../../services/runtime/platform/topics.ts'
import { topology, type TopicName } from '../../../../services/topology.ts'

const TOPICS = Object.keys(topology.topics) as TopicName[]

describe('topic names', () => {
  it.each<[string, TopicName, Parameters<typeof topicName>[1]]>([
    ['rows.submitted.small', 'rows.submitted', { lane: 'small' }],
    ['rows.to-verify.bulk.whatsapp', 'rows.to-verify', { lane: 'bulk', service: 'whatsapp' }],
    ['feeds.acme.submitted', 'feeds.submitted', { partner: 'acme' }],
    ['job.keys', 'job.keys', {}],
  ])('contain the lane, service or partner, and are parsed: %s', (name, topic, division) => {
    expect(topicName(topic, { lane: 'bulk', ...division })).toBe(name)
    expect(logicalTopic(name)).toEqual({ topic, ...division })
  })

  it('are none without what they are split by, or with more', () => {
    expect(() => topicName('rows.submitted')).toThrow('rows.submitted is split by lane')
    expect(() => topicName('rows.retry', { lane: 'bulk' })).toThrow('split by service')
    expect(() => topicName('feeds.finished')).toThrow('feeds.finished is split by partner')
    for (const name of ['rows.to-verify', 'verify.dead', 'feeds..finished', 'feeds.a.b.finished']) {
      expect(logicalTopic(name)).toBeUndefined()
    }
  })

  it('match the pattern of their topic and no other', () => {
    expect(topicPattern('job.keys')).toEqual({ name: 'job.keys', prefix: false })
    expect(topicPattern('feeds.finished')).toEqual({ name: 'feeds.', prefix: true })
    for (const { name } of allTopics()) {
      const matching = TOPICS.filter(topic => {
        const { name: pattern, prefix } = topicPattern(topic)
        return prefix ? name.startsWith(pattern) : name === pattern
      })
      expect(matching).toEqual(name.endsWith('.dead') ? [] : [logicalTopic(name)?.topic])
    }
  })

  it('of partners have the settings of the topology, and are made for each', () => {
    expect(partnerTopics('acme', 2)).toEqual([
      { name: 'feeds.acme.submitted', partitions: 2, keepHours: 168, compact: false },
      { name: 'feeds.acme.finished', partitions: 2, keepHours: 168, compact: false },
    ])
    expect(partnerTopics('acme')[0]?.partitions).toBe(1)
    expect(allTopics().some(({ name }) => name.startsWith('feeds'))).toBe(false)
  })

  it('have message keys of the declared fields', () => {
    const value = { tenant: 'o.live', job: 'job_1', chunk: 0, batch: 3 }
    expect(messageKey('rows.to-verify', value)).toBe('job_1:0:3')
    expect(messageKey('rows.submitted', value)).toBe('job_1:0')
    expect(messageKey('wallet.journal', value)).toBe('o.live')
  })
})

describe('the groups of partner topics', () => {
  const partners = Array.from({ length: 1_000 }, (_, index) => `partner-${index}`)

  it('are few, and each has its share of the partners', () => {
    const sizes = [...Map.groupBy(partners, chooseFeedGroup).values()].map(({ length }) => length)
    expect(sizes).toHaveLength(FEED_GROUPS.length)
    expect(Math.max(...sizes)).toBeLessThan(2 * Math.min(...sizes))
  })

  it('never change for a partner', () => {
    expect(['acme', 'globex', '0'].map(chooseFeedGroup))
      .toEqual(['feed.shared.5', 'feed.shared.5', 'feed.shared.6'])
  })
})

const text = '8, rows.to-verify=12,rows.to-verify.bulk=16,rows.to-verify.bulk.whatsapp=32'
const counts = parseTopicPartitions(text)

describe('configured partitions', () => {
  it.each([
    ['rows.submitted.small', 8],
    ['rows.to-verify.small.telegram', 12],
    ['rows.to-verify.bulk.telegram', 16],
    ['rows.to-verify.bulk.whatsapp', 32],
    ['jobs.settled', 8],
  ])('of %s are %i: the most specific number wins', (name, expected) => {
    expect(configuredPartitions(counts, name)).toBe(expected)
  })

  it.each(['rows.retry.small.whatsapp', 'wallet.journal', 'job.keys', 'accounts', 'lookup.dead'])(
    'of %s are not those of a number alone', name => {
      expect(configuredPartitions(counts, name)).toBeUndefined()
    })

  it('of a topic may be set where a number alone does not apply', () => {
    const named = parseTopicPartitions('rows.retry=2,wallet.journal=4')
    const partitionsOf = (name: string) =>
      topicsWithPartitions(named).find(topic => topic.name === name)?.partitions
    expect(['rows.retry.bulk.whatsapp', 'wallet.journal', 'rows.submitted.bulk'].map(partitionsOf))
      .toEqual([2, 4, 4])
  })

  it('of a split topic are those of its part with the fewest', () => {
    expect(fewestPartitions(counts, 'rows.to-verify')).toBe(12)
    expect(fewestPartitions(parseTopicPartitions(''), 'feeds.submitted')).toBe(1)
  })

  it.each([
    ['rows.unknown=8', 'rows.unknown is not a topic. The topics are rows.submitted, '],
    ['rows=8', 'rows is not a topic.'],
    ['rows.to-verify.bulk.phone=8', 'rows.to-verify.bulk.phone is not a topic.'],
    ['lookup.dead=8', 'lookup.dead is not a topic.'],
    ['feeds.submitted=8', 'feeds.submitted cannot be set: contacts are signed for'],
    ['x', 'x is not a number from 1 to 1000, or a topic, "=" and such a number'],
    ['rows.submitted=', 'rows.submitted= is not a number from 1 to 1000'],
    ['5000', '5000 is not a number from 1 to 1000'],
    ['3', '3 is too low: rows.submitted has at least 4 partitions'],
    ['rows.completed.bulk=2', 'rows.completed.bulk=2 is too low: rows.completed has at least 4'],
  ])('%s are refused', (wrong, message) => {
    expect(() => parseTopicPartitions(wrong)).toThrow(message)
  })
})

it('topics may grow, except those whose readers rely on the partition of a key', () => {
  expect(['rows.completed.small', 'jobs.settled', 'jobs.events'].map(whyFixed))
    .toEqual([undefined, undefined, undefined])
  expect(whyFixed('wallet.journal')).toContain('all entries of a tenant')
  expect(whyFixed('job.keys')).toBe(whyFixed('wallet.snapshots'))
  expect(whyFixed('settle.dead')).toBe('it is not a topic of services/topology.ts')
})
