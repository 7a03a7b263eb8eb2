import type { EachBatchPayload, Kafka } from 'kafkajs'
import { expect, it } from 'vitest'
import type { RawMessage } from '../../../../services/runtime/kafka/bus.ts'
import { createTopicReader } from '../../../../services/runtime/kafka/topic-reader.ts'

type Run = { readonly eachBatch: (payload: EachBatchPayload) => Promise<void> }
type Message = { readonly offset: string, readonly key: Buffer }
type Batch = readonly [partition: number, ...messages: readonly Message[]]

const MINUTE_MS = 60_000
const messages = (...offsets: readonly number[]) =>
  offsets.map(offset => ({ offset: `${offset}`, key: Buffer.from(`key-${offset}`) }))

/**
 * Brokers with a topic of three partitions, the last one empty. The others have a message a minute,
 * at the offsets 0 to 3; compaction has taken the first one. It has a record of every used group.
 */
function brokers (
  batches: readonly Batch[] = [
    [0, ...messages(0)], [1, ...messages(1, 2, 3)], [0, ...messages(1, 2, 3)],
  ]
) {
  const bounds = [[0, 4], [1, 4], [0, 0]]
  const groups: string[] = []
  const deleted: string[] = []
  const started: unknown[] = []
  const idle = async () => {}
  const admin = {
    connect: idle,
    disconnect: idle,
    fetchTopicMetadata: async () => ({
      topics: [{ partitions: [0, 1, 2].map(partitionId => ({ partitionId, leader: 1 })) }],
    }),
    fetchTopicOffsets: async () => bounds.map(([low, high], partition) =>
      ({ partition, low: String(low), high: String(high) })),
    fetchTopicOffsetsByTimestamp: async (_topic: string, ms: number) => [0, 1, 2].map(partition =>
      ({ partition, offset: String(partition < 2 ? Math.min(4, Math.ceil(ms / MINUTE_MS)) : 0) })),
    setOffsets: async (offsets: unknown) => { started.push(offsets) },
    deleteGroups: async (ids: string[]) => { deleted.push(...ids) },
  }
  const run = async ({ eachBatch }: Run) => {
    for (const [partition, ...messages] of batches) {
      const batch = { partition, messages, lastOffset: () => messages.at(-1)?.offset }
      await eachBatch({ batch } as unknown as EachBatchPayload)
    }
  }
  const consumer = ({ groupId }: { groupId: string }) => {
    groups.push(groupId)
    return { events: {}, on: () => {}, connect: idle, subscribe: idle, run, disconnect: idle }
  }
  const kafka = { admin: () => admin, consumer } as unknown as Kafka
  return { groups, deleted, started, kafka }
}

const readerOn = (kafka: Kafka) => createTopicReader({ brokers: [], clientId: 'reader' }, kafka)
const GROUP = expect.stringMatching(/^reader\.t\./)

function collect () {
  const seen: string[] = []
  const onMessages = (messages: readonly RawMessage[]) => {
    seen.push(...messages.map(({ partition, offset }) => `${partition}:${offset}`))
  }
  return { seen, onMessages }
}

it('the topic reader reads to the current ends and deletes its group', async () => {
  const { kafka, groups, deleted, started } = brokers()
  const { seen, onMessages } = collect()
  const ends = await readerOn(kafka).read('t', onMessages)
  expect([...ends]).toEqual([[0, 4n], [1, 4n], [2, 0n]])
  expect(seen).toEqual(['0:0', '1:1', '1:2', '1:3', '0:1', '0:2', '0:3'])
  expect([groups, deleted, started]).toEqual([[GROUP], groups, []])
})

it('the topic reader passes on the messages of a fetch in small batches', async () => {
  const offsets = Array.from({ length: 601 }, (_, index) => index - 600)
  const { kafka } =
    brokers([[0, ...messages(...offsets)], [1, ...messages(3)], [0, ...messages(3)]])
  const sizes: number[] = []
  await readerOn(kafka).read('t', ({ length }) => { sizes.push(length) })
  expect(sizes).toEqual([250, 250, 101, 1, 1])
})

it('the topic reader stops at a timestamp and returns its positions', async () => {
  const { kafka } = brokers()
  const { seen, onMessages } = collect()
  const ends = await readerOn(kafka).read('t', onMessages, { untilMs: 2 * MINUTE_MS })
  expect([...ends]).toEqual([[0, 2n], [1, 2n], [2, 0n]])
  expect(seen).toEqual(['0:0', '1:1', '0:1'])
})

it.each([
  ['positions, as far as there are messages', { from: new Map([[0, 2n]]) }, ['2', '1']],
  ['a moment, and five minutes before', { sinceMs: 8 * MINUTE_MS }, ['3', '3']],
  ['whichever comes first', { from: new Map([[0, 2n], [1, 3n]]), sinceMs: 6 * MINUTE_MS },
    ['1', '1']],
])('the topic reader starts from %s', async (_, limits, starts) => {
  const { kafka, started } = brokers()
  await readerOn(kafka).read('t', () => {}, limits)
  const partitions = starts.map((offset, partition) => ({ partition, offset }))
  expect(started).toEqual([{ groupId: GROUP, topic: 't', partitions }])
})

it.each([
  ['there is nothing to read', { from: new Map([[0, 4n], [1, 4n]]) }, [[0, 4n], [1, 4n], [2, 0n]]],
  ['the partitions of its keys are empty', { keys: new Set(['key-2', 'key-3']) }, [[2, 0n]]],
])('the topic reader needs no group if %s', async (_, limits, ends) => {
  const { kafka, groups } = brokers()
  const read = await readerOn(kafka).read('t', () => {}, limits)
  expect([[...read], groups]).toEqual([ends, []])
})

it('the topic reader throws the error of onMessages', async () => {
  const { kafka, deleted } = brokers()
  const onMessages = async () => { throw new Error('enough') }
  await expect(readerOn(kafka).read('t', onMessages)).rejects.toThrow('enough')
  expect(deleted).toEqual([GROUP])
})

it('the topic reader reads the messages of some keys', async () => {
  const { kafka } = brokers([[0, ...messages(1, 2, 3)]])
  const { seen, onMessages } = collect()
  expect([...await readerOn(kafka).read('t', onMessages, { keys: new Set(['key-1']) })])
    .toEqual([[0, 4n]])
  expect(seen).toEqual(['0:1'])
})
