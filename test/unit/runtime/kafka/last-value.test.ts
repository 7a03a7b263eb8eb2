import type { EachBatchPayload, Kafka } from 'kafkajs'
import { describe, expect, it } from 'vitest'
import {
  InfrastructureError, isInfrastructure,
} from '../../../../services/runtime/platform/errors.ts'
import { createLastValues } from '../../../../services/runtime/kafka/last-value.ts'

type Entry = readonly [key: string, value: string]
type Batch = { readonly partition: number, readonly entries: readonly Entry[] }
type Run = { readonly eachBatch: (payload: EachBatchPayload) => Promise<void> }

/** Brokers with one topic of two partitions, and a record of every used group. */
function brokersWith (batches: readonly Batch[], fault?: Error) {
  const groups: string[] = []
  const deleted: string[] = []
  const highOf = (wanted: number) => batches
    .filter(({ partition }) => partition === wanted)
    .reduce((sum, { entries }) => sum + entries.length, 0)
  const admin = {
    connect: async () => {},
    disconnect: async () => {},
    fetchTopicOffsets: async () => {
      if (fault !== undefined) throw fault
      return [0, 1].map(partition => ({ partition, low: '0', high: String(highOf(partition)) }))
    },
    fetchTopicMetadata: async () => ({
      topics: [{ partitions: [0, 1].map(partitionId => ({ partitionId, leader: 1 })) }],
    }),
    deleteGroups: async (ids: string[]) => { deleted.push(...ids) },
  }
  const run = async ({ eachBatch }: Run) => {
    const next = new Map([[0, 0], [1, 0]])
    for (const { partition, entries } of batches) {
      const end = (next.get(partition) ?? 0) + entries.length
      next.set(partition, end)
      const messages = entries.map(([key, value]) => ({
        key: Buffer.from(key), value: value === '' ? null : Buffer.from(value), offset: '0',
      }))
      const batch = { partition, messages, lastOffset: () => String(end - 1) }
      await eachBatch({ batch } as unknown as EachBatchPayload)
    }
  }
  const consumer = ({ groupId }: { groupId: string }) => {
    groups.push(groupId)
    const idle = async () => {}
    return { events: {}, on: () => {}, connect: idle, subscribe: idle, run, disconnect: idle }
  }
  const kafka = { admin: () => admin, consumer } as unknown as Kafka
  return { groups, deleted, values: createLastValues({ build: () => kafka, clientId: 'x' }) }
}

/** By kafkajs' partitioner `a` and `d` are in partition 1 of two, `b` and `c` in partition 0. */
const batches: readonly Batch[] = [
  { partition: 0, entries: [['b', 'b1'], ['c', 'c1']] },
  { partition: 1, entries: [['a', 'a1'], ['d', 'd1'], ['a', 'a2']] },
  { partition: 1, entries: [['d', '']] },
  { partition: 0, entries: [['b', 'b2']] },
]

describe('the last value of a key', () => {
  it('is found for concurrent callers by one search, which leaves no group', async () => {
    const { values, groups, deleted } = brokersWith(batches)
    const keys = ['a', 'b', 'a', 'd', 'never']
    const found = await Promise.all(keys.map(key => values.find('topic', key)))
    expect(found.map(value => value?.toString())).toEqual(['a2', 'b2', 'a2', undefined, undefined])
    expect(groups).toHaveLength(1)
    expect(groups[0]).toMatch(/^x\.last-value\./)
    expect(deleted).toEqual(groups)
    expect(String(await values.find('topic', 'c'))).toBe('c1')
    expect(groups).toHaveLength(2)
  })

  it('throws an InfrastructureError if the topic cannot be read', async () => {
    const { values } = brokersWith(batches, new TypeError('whatever the client says'))
    const error: unknown = await values.find('topic', 'a').catch((reason: unknown) => reason)
    expect(error).toBeInstanceOf(InfrastructureError)
    expect(isInfrastructure(error)).toBe(true)
  })

  it('is not searched for after the bus closes', async () => {
    const { values, groups } = brokersWith(batches)
    await values.close()
    await expect(values.find('topic', 'a'))
      .rejects.toThrow('search of topic topic for 1 keys failed')
    expect(groups).toEqual([])
  })
})
