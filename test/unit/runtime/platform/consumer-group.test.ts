import { createRequire } from 'node:module'
import { describe, expect, it } from 'vitest'

const ConsumerGroup = createRequire(import.meta.url)('kafkajs/src/consumer/consumerGroup')

type FetchOptions = { readonly maxWaitTime: number, readonly minBytes: number }

/** A group with one partition of one broker, which returns what the test sets. */
function createGroup () {
  const fetches: FetchOptions[] = []
  const state = { paused: [] as unknown[], messages: [] as unknown[] }
  const broker = {
    fetch: async ({ maxWaitTime, minBytes }: FetchOptions) => {
      fetches.push({ maxWaitTime, minBytes })
      const partitions = [{ partition: 0, messages: state.messages, highWatermark: '0' }]
      return { responses: [{ topicName: 'rows', partitions }] }
    },
  }
  const group = Object.assign(Object.create(ConsumerGroup.prototype), {
    cluster: { refreshMetadataIfNecessary: async () => {}, findBroker: async () => broker },
    subscriptionState: {
      assigned: () => [{ topic: 'rows', partitions: [0] }],
      paused: () => state.paused,
      isPaused: () => false,
      pause: () => {},
    },
    logger: { info: () => {} },
    offsetManager: { committedOffsets: () => ({ rows: { 0: '0' } }), nextOffset: () => 0 },
    preferredReadReplicasPerTopicPartition: {},
    pausedAt: Date.now(),
    seekOffset: { has: () => false },
    quietNodes: new Set(),
    maxWaitTime: 200,
    minBytes: 500,
    checkForStaleAssignment: () => {},
    filterPartitionsByNode: (_node: number, topics: unknown) => topics,
    seekOffsets: async () => {},
    getActiveTopicPartitions: () => ({ rows: new Set([0]) }),
  })
  return { state, group, fetches, fetch: async () => { await group.fetch(1) } }
}

/** These fail without `deploy/patches`, whose effect no other test would notice. */
describe('the consumer group of kafkajs, patched', () => {
  it('fetches the first message at once and batches those behind it', async () => {
    const { state, fetches, fetch } = createGroup()
    state.messages = [{ offset: '0' }]
    await fetch()
    state.messages = []
    await fetch()
    await fetch()
    state.messages = [{ offset: '1' }]
    await fetch()
    await fetch()
    expect(fetches.map(({ minBytes }) => minBytes)).toEqual([500, 500, 1, 1, 500])
    expect(fetches.map(({ maxWaitTime }) => maxWaitTime)).toEqual([200, 200, 1_000, 1_000, 200])
  })

  it('fetches again soon while a partition is paused', async () => {
    const { state, fetches, fetch } = createGroup()
    state.paused = [{ topic: 'rows', partitions: [1] }]
    await fetch()
    state.paused = []
    await fetch()
    expect(fetches.map(({ maxWaitTime }) => maxWaitTime)).toEqual([100, 1_000])
  })

  it('fetches less often while a partition is paused for long', async () => {
    const { state, group, fetches, fetch } = createGroup()
    state.paused = [{ topic: 'rows', partitions: [1] }]
    await fetch()
    group.pausedAt = Date.now() - 10_000
    await fetch()
    group.pause([{ topic: 'rows', partitions: [2] }])
    await fetch()
    expect(fetches.map(({ maxWaitTime }) => maxWaitTime)).toEqual([100, 1_000, 100])
  })
})
