import { describe, expect, it } from 'vitest'
import {
  PartitionCounts, partitionHeadersIn, partitionsForJob, watchJobPartitions,
} from '../../../../services/runtime/platform/topics.ts'

const DELAY_MS = 90_000

function setUp () {
  const clock = { nowMs: 0 }
  const counts = new PartitionCounts({ delayMs: DELAY_MS, now: () => clock.nowMs })
  return { clock, counts }
}

it('the partitions in use grow when new ones have been known for a while', () => {
  const { clock, counts } = setUp()
  counts.update('rows.submitted.bulk', 4)
  clock.nowMs = 1_000
  counts.update('rows.submitted.bulk', 8)
  clock.nowMs += DELAY_MS - 1
  expect(counts.of('rows.submitted.bulk')).toBe(4)
  clock.nowMs += 1
  expect(counts.of('rows.submitted.bulk')).toBe(8)
})

describe('the partitions of a job', () => {
  const countOf = (topic: string) =>
    ({ 'rows.normalized.bulk': 8, 'rows.completed.bulk': 16 })[topic] ?? 4

  const watched: string[] = []
  const headersOf = watchJobPartitions({
    watchPartitions: topics => {
      watched.push(...topics)
      return countOf
    },
  })

  it('are in headers of its messages, by topic, and watched in both lanes', () => {
    const headers = headersOf('bulk')
    expect(headers)
      .toEqual({ 'partitions.rows.normalized': '8', 'partitions.rows.completed': '16' })
    expect(partitionHeadersIn({ job: 'job_1', ...headers, mac: 'x' })).toEqual(headers)
    expect(partitionsForJob('rows.normalized.bulk', headers)).toBe(8)
    expect(partitionsForJob('rows.completed.bulk', headers)).toBe(16)
    expect(watched).toEqual([
      'rows.normalized.small', 'rows.normalized.bulk', 'rows.completed.small',
      'rows.completed.bulk',
    ])
  })

  it('are those of the topology without headers', () => {
    expect(headersOf('small')).toEqual({})
    expect(partitionsForJob('rows.completed.small')).toBe(4)
  })
})
