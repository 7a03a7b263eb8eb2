import type { Batch, EachBatchPayload, Kafka } from 'kafkajs'
import { expect, it } from 'vitest'
import { InfrastructureError } from '../../../../services/lib/errors.ts'
import { createTopicReader, readToEnd } from '../../../../services/lib/kafka/topic-reader.ts'

type Run = { readonly eachBatch: (payload: EachBatchPayload) => Promise<void> }

/** Brokers with a topic of three partitions, the last one empty; the others end at offset 2. */
function brokers () {
  const groups: string[] = []
  const deleted: string[] = []
  const admin = {
    connect: async () => {},
    disconnect: async () => {},
    fetchTopicOffsets: async () =>
      ['2', '2', '0'].map((high, partition) => ({ partition, low: '0', high })),
    deleteGroups: async (ids: string[]) => { deleted.push(...ids) },
  }
  const run = async ({ eachBatch }: Run) => {
    for (const [partition, last] of [[0, '0'], [1, '1'], [0, '1']] as const) {
      await eachBatch({ batch: { partition, lastOffset: () => last } } as EachBatchPayload)
    }
  }
  const consumer = ({ groupId }: { groupId: string }) => {
    groups.push(groupId)
    const idle = async () => {}
    return { events: {}, on: () => {}, connect: idle, subscribe: idle, run, disconnect: idle }
  }
  return { groups, deleted, kafka: { admin: () => admin, consumer } as unknown as Kafka }
}

const reading = { topic: 't', groupId: 'g', signal: new AbortController().signal }

it('a topic is read to the ends its partitions had, and its group is gone', async () => {
  const { kafka, groups, deleted } = brokers()
  const seen: [number, string][] = []
  const onBatch = (batch: Batch) => { seen.push([batch.partition, batch.lastOffset()]) }
  await readToEnd(kafka, { ...reading, onBatch })
  expect(seen).toEqual([[0, '0'], [1, '1'], [0, '1']])
  expect([groups, deleted]).toEqual([['g'], ['g']])
})

it('needs no group where the partitions that matter are empty', async () => {
  const { kafka, groups } = brokers()
  await readToEnd(kafka, { ...reading, only: async () => new Set([2]), onBatch: () => {} })
  expect(groups).toEqual([])
})

it('ends with the error of whoever takes what is read', async () => {
  const { kafka, deleted } = brokers()
  const onBatch = async () => { throw new Error('enough') }
  await expect(readToEnd(kafka, { ...reading, onBatch })).rejects.toThrow('enough')
  expect(deleted).toEqual(['g'])
})

it('a topic that cannot be read is a matter of infrastructure', async () => {
  const reader = createTopicReader({ brokers: [], clientId: 'c' })
  await expect(reader.read('t', () => {})).rejects.toThrow(InfrastructureError)
})
