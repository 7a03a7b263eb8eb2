// Each of these fails without `deploy/patches`, whose effect no other test would notice at once.
import fc from 'fast-check'
import { createRequire } from 'node:module'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'

const load = createRequire(import.meta.url)
const logger = {
  namespace: () => logger, info: () => {}, warn: () => {}, error: () => {}, debug: () => {},
}

describe('the request queue of kafkajs, patched', () => {
  type Queue = {
    readonly maybeThrottle: (throttleMs: number) => void
    readonly push: (request: object) => void
    readonly fulfillRequest: (response: object) => void
    readonly scheduleRequestTimeoutCheck: () => void
    readonly destroy: () => void
  }
  const RequestQueue = load('kafkajs/src/network/requestQueue')

  function createQueue (maxInFlightRequests: number) {
    const queue: Queue = new RequestQueue({
      maxInFlightRequests,
      requestTimeout: 1_000,
      enforceRequestTimeout: true,
      clientId: 'test',
      broker: 'test',
      logger,
    })
    const sent: number[] = []
    const failed: number[] = []
    const push = (correlationId: number) => queue.push({
      entry: { correlationId, resolve: () => {}, reject: () => { failed.push(correlationId) } },
      expectResponse: true,
      sendRequest: () => { sent.push(correlationId) },
    })
    const answer = (correlationId: number) =>
      queue.fulfillRequest({ correlationId, payload: null, size: 0 })
    return { queue, sent, failed, push, answer }
  }

  beforeEach(() => { vi.useFakeTimers() })
  afterEach(() => { vi.useRealTimers() })

  it('sends requests that waited for a response, and sets no timer when nothing is pending', () => {
    const { push, answer, sent } = createQueue(1)
    push(1)
    answer(1)
    expect([sent, vi.getTimerCount()]).toEqual([[1], 0])
    push(2)
    push(3)
    expect(sent).toEqual([1, 2])
    answer(2)
    expect(sent).toEqual([1, 2, 3])
    answer(3)
    vi.advanceTimersByTime(10)
    expect(vi.getTimerCount()).toBe(0)
  })

  it('sends throttled requests with one timer as soon as the broker allows', () => {
    const { queue, push, sent } = createQueue(5)
    queue.maybeThrottle(300)
    push(1)
    expect(vi.getTimerCount()).toBe(1)
    vi.advanceTimersByTime(299)
    expect(sent).toEqual([])
    vi.advanceTimersByTime(1)
    expect(sent).toEqual([1])
    expect(vi.getTimerCount()).toBe(0)
  })

  it('looks for late answers to all connections with one timer, until none is left', () => {
    const queues = [createQueue(5), createQueue(5)]
    for (const { queue, push } of queues) {
      queue.scheduleRequestTimeoutCheck()
      push(1)
    }
    expect(vi.getTimerCount()).toBe(1)
    queues[0]?.answer(1)
    vi.advanceTimersByTime(1_100)
    expect(queues.map(({ failed }) => failed)).toEqual([[], [1]])
    queues[0]?.queue.destroy()
    expect(vi.getTimerCount()).toBe(1)
    queues[1]?.queue.destroy()
    expect(vi.getTimerCount()).toBe(0)
  })
})

describe('the consumer group of kafkajs, patched', () => {
  const ConsumerGroup = load('kafkajs/src/consumer/consumerGroup')
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
      logger,
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

  it('fetches the first message at once and batches those behind it', async () => {
    const { state, fetches, fetch } = createGroup()
    for (const messages of [[{ offset: '0' }], [], [], [{ offset: '1' }], [{ offset: '1' }]]) {
      state.messages = messages
      await fetch()
    }
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

it('the runner of kafkajs, patched, keeps its place in the group while no broker is there',
  async () => {
    const Runner = load('kafkajs/src/consumer/runner')
    const done: string[] = []
    const { promise: fetched, resolve } = Promise.withResolvers<void>()
    let nodes: readonly string[] = []
    const runner = new Runner({
      logger,
      consumerGroup: {
        groupId: 'g',
        memberId: 'm',
        connect: async () => {},
        joinAndSync: async () => { done.push('join') },
        leave: async () => {},
        getNodeIds: () => nodes,
        findBrokersAgain: async () => {
          done.push('poll')
          if (done.length < 4) throw new Error('no broker yet')
          nodes = ['1']
        },
        fetch: async () => {
          resolve()
          await new Promise(setImmediate)
          return []
        },
        heartbeat: async () => {},
      },
      instrumentationEmitter: { emit: () => {} },
      retry: { initialRetryTime: 1, maxRetryTime: 2, retries: 5 },
      onCrash: (error: Error) => { done.push(`crash: ${error.message}`) },
      eachBatch: async () => {},
    })
    await runner.start()
    await fetched
    expect(done).toEqual(['join', 'poll', 'poll', 'poll'])
    await runner.stop()
  })

it('a client whose only broker is removed while it connects goes on until it answers', async () => {
  const BrokerPool = load('kafkajs/src/cluster/brokerPool')
  const { KafkaJSConnectionError } = load('kafkajs')
  const place = { host: 'kafka', port: 9092 }
  const pool = new BrokerPool({
    connectionPoolBuilder: { build: async () => place }, logger, retry: { initialRetryTime: 1 },
  })
  let tries = 0
  const broker = {
    nodeId: 1,
    connectionPool: place,
    isConnected: () => false,
    disconnect: async () => {},
    connect: async () => {
      tries += 1
      // Another request loses its connection to the broker before the next try.
      setImmediate(() => {
        pool.brokers = { 1: broker }
        pool.removeBroker(place)
      })
      if (tries < 4) throw new KafkaJSConnectionError('connect ECONNREFUSED')
    },
  }
  pool.createBroker = () => broker
  await pool.connect()
  expect(tries).toBe(4)
})

type Encoder = {
  readonly buffer: Buffer
  readonly size: () => number
  readonly writeInt32: (value: number) => Encoder
  readonly writeString: (value: string) => Encoder
  readonly writeBytes: (value: Buffer) => Encoder
  readonly writeVarIntBytes: (value: Buffer) => Encoder
  readonly writeEncoder: (value: Encoder) => Encoder
  readonly writeEncoderArray: (value: readonly Encoder[]) => Encoder
}

const KafkaEncoder = load('kafkajs/src/protocol/encoder.js') as new () => Encoder
const crc32C = load('kafkajs/src/protocol/recordBatch/crc32C/index.js') as (b: Buffer) => number

/** A write, and what it adds by the rules of the protocol. */
type Piece = { readonly write: (encoder: Encoder) => unknown, readonly bytes: Buffer }

const bytesOf = (pieces: readonly Piece[]) => Buffer.concat(pieces.map(({ bytes }) => bytes))

function encode (pieces: readonly Piece[]): Encoder {
  const encoder = new KafkaEncoder()
  for (const { write } of pieces) write(encoder)
  return encoder
}

function int32 (value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeInt32BE(value)
  return bytes
}

/** Zigzag, then seven bits a byte, the least significant first. */
function varInt (value: number): Buffer {
  const bytes: number[] = []
  let rest = value * 2
  for (; rest > 127; rest = Math.floor(rest / 128)) bytes.push(rest % 128 + 128)
  return Buffer.from([...bytes, rest])
}

const values = fc.oneof(fc.integer({ min: 0, max: 300 }), fc.integer({ min: 4_090, max: 20_000 }))
  .map(length => Buffer.alloc(length, length % 251))

const { pieces } = fc.letrec<{ pieces: Piece[], piece: Piece }>(tie => ({
  piece: fc.oneof(
    { depthSize: 'small' },
    fc.integer().map(value =>
      ({ write: (encoder: Encoder) => encoder.writeInt32(value), bytes: int32(value) })),
    fc.string().map(value => ({
      write: (encoder: Encoder) => encoder.writeString(value),
      bytes: Buffer.concat([int32(Buffer.byteLength(value)).subarray(2), Buffer.from(value)]),
    })),
    values.map(value => ({
      write: (encoder: Encoder) => encoder.writeBytes(value),
      bytes: Buffer.concat([int32(value.length), value]),
    })),
    values.map(value => ({
      write: (encoder: Encoder) => encoder.writeVarIntBytes(value),
      bytes: Buffer.concat([varInt(value.length), value]),
    })),
    // What is there by then may be read, as a checksum needs.
    fc.constant({
      write: (encoder: Encoder) => expect(encoder.buffer).toHaveLength(encoder.size()),
      bytes: Buffer.alloc(0),
    }),
    tie('pieces').map(inner => ({
      write: (encoder: Encoder) => encoder.writeEncoder(encode(inner)), bytes: bytesOf(inner),
    })),
    tie('pieces').map(inner => ({
      write: (encoder: Encoder) => encoder.writeEncoderArray([encode(inner), encode([])]),
      bytes: bytesOf(inner),
    }))
  ),
  pieces: fc.array(tie('piece'), { maxLength: 6 }),
}))

describe('the encoder of kafkajs, patched', () => {
  it('keeps the order of large and nested writes', () => {
    fc.assert(fc.property(pieces, all => {
      const encoder = encode(all)
      expect(encoder.size()).toBe(bytesOf(all).length)
      expect(encoder.buffer.equals(bytesOf(all))).toBe(true)
      expect(encoder.buffer.equals(bytesOf(all))).toBe(true)
    }))
  })

  it('computes CRC-32C checksums', () => {
    expect(crc32C(Buffer.from('123456789'))).toBe(0xe3069283)
    expect(crc32C(Buffer.alloc(0))).toBe(0)
  })
})

describe('the decoder of kafkajs, patched', () => {
  const Batch = load('kafkajs/src/consumer/batch')
  const Decoder = load('kafkajs/src/protocol/decoder')
  const Record = load('kafkajs/src/protocol/recordBatch/record/v0')
  const { RecordBatch } = load('kafkajs/src/protocol/recordBatch/v0')
  const decodeMessages = load('kafkajs/src/protocol/requests/fetch/v4/decodeMessages')
  const ATTRIBUTES_AT = 21
  const SNAPPY = 2

  /** A batch with one record, perhaps with the attributes of another codec. */
  async function batchOf (offset: number, codec = 0): Promise<Buffer> {
    const record = Record({ offsetDelta: 0, timestampDelta: 0, key: 'k', value: `${offset}` })
    const { buffer } = await RecordBatch({ firstOffset: offset, records: [record] })
    buffer.writeInt16BE(codec, ATTRIBUTES_AT)
    return buffer
  }

  async function fetched (fetchOffset: number, batches: readonly Buffer[]) {
    const bytes = new KafkaEncoder().writeBytes(Buffer.concat(batches)).buffer
    const messages = await decodeMessages(new Decoder(bytes))
    return new Batch('rows', `${fetchOffset}`, {
      partition: 0, highWatermark: '9', abortedTransactions: [], messages,
    })
  }

  it('returns what it decodes before an undecodable batch, then its error', async () => {
    const first = await fetched(4, [await batchOf(4), await batchOf(5, SNAPPY)])
    expect([first.error, first.lastOffset()]).toEqual([undefined, '4'])
    const second = await fetched(5, [await batchOf(5, SNAPPY), await batchOf(6)])
    expect([second.error?.name, second.isEmpty()]).toEqual(['KafkaJSNotImplemented', true])
  })
})
