import { describe, expect, it } from 'vitest'
import {
  configuredPartitions, fewestPartitions, parseTopicPartitions, topicsWithPartitions, whyFixed,
} from '../../../../services/runtime/platform/topics.ts'

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

describe('topics', () => {
  it('may grow, except those whose readers rely on the partition of a key', () => {
    expect(['rows.completed.small', 'jobs.settled', 'jobs.events'].map(whyFixed))
      .toEqual([undefined, undefined, undefined])
    expect(whyFixed('wallet.journal')).toContain('all entries of a tenant')
    expect(whyFixed('job.keys')).toBe(whyFixed('wallet.snapshots'))
    expect(whyFixed('settle.dead')).toBe('it is not a topic of services/topology.ts')
  })
})
