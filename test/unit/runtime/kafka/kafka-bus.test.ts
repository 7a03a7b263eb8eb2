import { randomBytes } from 'node:crypto'
import { createRequire } from 'node:module'
import { gzipSync, zstdCompressSync } from 'node:zlib'
import type { Kafka, ProducerBatch } from 'kafkajs'
import { describe, expect, it } from 'vitest'
import { PartitionCounts } from '../../../../services/runtime/platform/topics.ts'
import {
  createKafkaBus, type KafkaBusOptions,
} from '../../../../services/runtime/kafka/kafka-bus.ts'
import { createVerifiedProducer } from '../../../../services/runtime/kafka/safe-producer.ts'
import type { startConsumer } from '../../../../services/runtime/kafka/consumer.ts'

/** A bus whose consumers only record their retries and stops. */
function newBus (more: Partial<KafkaBusOptions> = {}) {
  const stops: string[] = []
  const retries: ((error: unknown) => void)[] = []
  const clients: Kafka[] = []
  const start: typeof startConsumer = ({ kafka, consume: { group }, onRetry }) => {
    clients.push(kafka as Kafka)
    retries.push(error => onRetry(error, 1))
    return { ready: () => true, stop: async () => { stops.push(group) } }
  }
  const bus = createKafkaBus(
    { brokers: ['127.0.0.1:1'], clientId: 'c', onFatal: () => {}, ...more }, start)
  return { bus, stops, retries, clients }
}

const options = {
  topics: ['t'], onAssigned: () => {}, onDelivery: async () => {},
}

it('the Kafka bus releases a stopped consumer', async () => {
  const { bus, stops } = newBus()
  const first = await bus.consume({ ...options, group: 'first' })
  await bus.consume({ ...options, group: 'second' })
  await first.stop()
  await first.stop()
  expect(stops).toEqual(['first'])
  await bus.close()
  await bus.close()
  expect(stops).toEqual(['first', 'second'])
})

it('the Kafka bus replaces a closed producer', async () => {
  const { bus } = newBus()
  const first = bus.producer('results')
  expect(bus.producer('results')).toBe(first)
  await first.close()
  const second = bus.producer('results')
  expect(second).not.toBe(first)
  await expect(second.send([])).resolves.toBeUndefined()
  await bus.close()
})

it('the Kafka bus searches for no last value after it closes', async () => {
  const { bus } = newBus()
  await bus.close()
  await expect(bus.lastValue('topic', 'a'))
    .rejects.toThrow('topic topic could not be read to its end')
})

it('the Kafka bus logs an access error once, and others each time', async () => {
  const logged: unknown[] = []
  const { bus, retries } = newBus({
    log: (level, message, { group }) => logged.push([level, message.split(':', 1)[0], group]),
  })
  await bus.consume({ ...options, group: 'one' })
  await bus.consume({ ...options, group: 'two' })
  const failure = (more: object) => Object.assign(new Error('no connection'), more)
  for (const onRetry of retries) {
    onRetry(failure({ code: 'ECONNREFUSED' }))
    onRetry(failure({ name: 'KafkaJSSASLAuthenticationError' }))
    onRetry(failure({ code: 'DEPTH_ZERO_SELF_SIGNED_CERT' }))
  }
  expect(logged).toEqual([
    ['warn', 'Kafka consumer cannot join, retrying', 'one'],
    ['error', 'Kafka authentication failed', undefined],
    ['error', 'The certificate of Kafka is not trusted', undefined],
    ['warn', 'Kafka consumer cannot join, retrying', 'two'],
  ])
  await bus.close()
})

it.each([
  ['debug', 'Response Heartbeat(key: 12, version: 3)', 'REBALANCE_IN_PROGRESS'],
  ['debug', 'Response GroupCoordinator(key: 10, version: 2)', 'GROUP_COORDINATOR_NOT_AVAILABLE'],
  ['info', 'The group is rebalancing, re-joining', 'REBALANCE_IN_PROGRESS'],
  ['warn', 'Response Fetch(key: 1, version: 11)', 'TOPIC_AUTHORIZATION_FAILED'],
  ['warn', 'Response Produce(key: 0, version: 7)', 'NOT_ENOUGH_REPLICAS'],
])('the Kafka bus logs with level %s: %s of the code %s', async (level, message, type) => {
  const known: readonly { readonly type: string, readonly message: string }[] =
    library('kafkajs/src/protocol/error').errorCodes
  const error = known.find(code => code.type === type)?.message
  expect(error).toBeDefined()
  const logged: unknown[] = []
  const { bus, clients } = newBus({ log: (...[as, what]) => { logged.push([as, what]) } })
  await bus.consume({ ...options, group: 'g' })
  clients[0]?.logger().error(message, { error })
  expect(logged).toEqual([[level, message]])
  await bus.close()
})

type Codec = { readonly decompress: (buffer: Buffer) => Promise<Buffer> }
const library = createRequire(import.meta.url)
const { lookupCodecByAttributes } = library('kafkajs/src/protocol/message/compression')

describe('a compressed batch', () => {
  /** A record: its length as a zigzag varint, then that many bytes. */
  const record = (bytes: number) => Buffer.concat([
    Buffer.from([0x80 | (bytes * 2 & 0x7f), bytes * 2 >> 7]), Buffer.alloc(bytes, bytes),
  ])
  const codecs = [['gzip', 1, gzipSync], ['zstd', 4, zstdCompressSync]] as const

  it.each(codecs)('in %s is read, whatever it grows to, up to a hundred times', async (_, id,
    compress) => {
    const { decompress }: Codec = lookupCodecByAttributes(id)
    const alike = Buffer.concat(Array.from({ length: 50 }, () => record(300)))
    expect(await decompress(compress(alike))).toEqual(alike)
    const large = randomBytes(1_000_000)
    expect(await decompress(compress(large))).toEqual(large)
  })

  it.each(codecs)('in %s is refused if it would fill the memory', async (_, id, compress) => {
    const { decompress }: Codec = lookupCodecByAttributes(id)
    await expect(decompress(compress(Buffer.alloc(20_000_000))))
      .rejects.toThrow(/^a batch of \d+ compressed bytes has more than \d+ bytes$/)
    await expect(decompress(compress(Buffer.alloc(10_000))))
      .rejects.toThrow(/^a batch of \d+ compressed bytes has more than [\d.]+ records$/)
  })
})

const createSendMessages = library('kafkajs/src/producer/sendMessages')
const createRetry = library('kafkajs/src/retry')

type Produced = {
  readonly topicData: readonly {
    readonly topic: string
    readonly partitions: readonly { readonly partition: number, readonly messages: object[] }[]
  }[]
}

/**
 * The sending of kafkajs itself on two brokers that lead one partition each. The first one refuses
 * once, and by the next try the second leads both.
 */
function setUp () {
  let moved = false
  const stored: number[] = []
  const store = async ({ topicData }: Produced) => {
    const partitions = topicData.flatMap(topic => topic.partitions)
    for (const { partition } of partitions) stored.push(partition)
    const answers = partitions.map(({ partition }) => ({ partition, errorCode: 0 }))
    return { topics: [{ topicName: 'rows', partitions: answers }] }
  }
  const refuse = async () => {
    throw Object.assign(new Error('moved'), {
      name: 'KafkaJSProtocolError', type: 'NOT_LEADER_FOR_PARTITION', retriable: true,
    })
  }
  const brokers: Record<number, object> = {
    1: { nodeId: 1, produce: refuse }, 2: { nodeId: 2, produce: store },
  }
  const nothing = async () => {}
  const leaderOf = (partition: number) => moved ? 2 : partition + 1
  const cluster = {
    isConnected: () => true,
    addMultipleTargetTopics: nothing,
    refreshMetadataIfNecessary: nothing,
    refreshMetadata: async () => { moved = true },
    findTopicPartitionMetadata: () => [{ partitionId: 0 }, { partitionId: 1 }],
    findLeaderForPartitions: (topic: string, partitions: readonly string[]) =>
      Object.groupBy(partitions.map(Number), leaderOf),
    findBroker: async ({ nodeId }: { readonly nodeId: number }) => brokers[nodeId],
  }
  const eosManager = {
    acquireBrokerLock: nothing,
    releaseBrokerLock: nothing,
    isTransactional: () => false,
    getSequence: () => 0,
    updateSequence: () => {},
    getProducerId: () => 1,
    getProducerEpoch: () => 0,
  }
  const producer = ({ createPartitioner }: { readonly createPartitioner: () => unknown }) => ({
    connect: nothing,
    disconnect: nothing,
    sendBatch: createSendMessages({
      cluster,
      eosManager,
      partitioner: createPartitioner(),
      logger: { debug: () => {}, error: () => {} },
      retrier: createRetry({ retries: 3, initialRetryTime: 1 }),
    }),
  })
  const verified = createVerifiedProducer(
    { producer } as unknown as Kafka,
    { partitions: new PartitionCounts({ delayMs: 0 }), metadataMaxAge: 1 })
  return { stored, verified }
}

const batch: ProducerBatch = {
  topicMessages: [
    { topic: 'rows', messages: ['a', 'b', 'c', 'd'].map(key => ({ key, value: key })) },
  ],
}

it('a batch of which kafkajs sends half during a change of leader is rejected', async () => {
  const { verified, stored } = setUp()
  await expect(verified.sendBatch(batch)).rejects.toThrow('without sending rows|0')
  expect(stored).toEqual([1])
})

it('watched partitions ' +
  'are those of the topology while no broker answers, and do not delay a close', async () => {
  const logged: string[] = []
  const failed = Promise.withResolvers<void>()
  const bus = createKafkaBus({
    brokers: ['127.0.0.1:1'],
    clientId: 'test',
    onFatal: () => {},
    log: (_, message) => {
      logged.push(message)
      failed.resolve()
    },
  })
  const countOf = bus.watchPartitions(['rows.completed.bulk'])
  await failed.promise
  expect(countOf('rows.completed.bulk')).toBe(4)
  expect(logged).toEqual(['partitions of topics not read, retrying'])
  await bus.close()
})

describe('a message of a topic whose partitions have grown', () => {
  /** The partition that the producer chooses for a message. */
  function partitionerOf () {
    let chosen: Partitioner | undefined
    const producer = ({ createPartitioner }: { readonly createPartitioner: () => Partitioner }) => {
      chosen = createPartitioner()
      return {}
    }
    createVerifiedProducer(
      { producer } as unknown as Kafka,
      { partitions: new PartitionCounts({ delayMs: 60_000 }), metadataMaxAge: 1 })
    const partitionMetadata = Array.from({ length: 8 }, () => ({ leader: 1 }))
    return (topic: string, key: string, headers = {}) =>
      chosen?.({ topic, partitionMetadata, message: { key, headers } })
  }
  type Partitioner = (args: object) => number
  const keys = Array.from({ length: 100 }, (_, index) => `job_${index}`)
  const used = (partitions: readonly (number | undefined)[]) => new Set(partitions).size

  it('goes to as many partitions as its job, at once', () => {
    const partitionOf = partitionerOf()
    const of = (count: number) => keys.map(key => partitionOf(
      'rows.completed.bulk', key, { 'partitions.rows.completed': String(count) }))
    expect([used(of(4)), used(of(6)), used(of(8))]).toEqual([4, 6, 8])
    // The partition of a key depends on the number alone.
    expect(of(4)).toEqual(of(8).map(partition => (partition ?? 0) % 4))
    expect(keys.map(key => partitionOf('rows.completed.bulk', key))).toEqual(of(4))
  })

  it('of another topic goes to the former ones until consumers know the new ones', () => {
    const partitionOf = partitionerOf()
    expect(used(keys.map(key => partitionOf('rows.submitted.bulk', key)))).toBe(4)
    expect(used(keys.map(key => partitionOf('wallet.journal', key)))).toBe(8)
  })
})
