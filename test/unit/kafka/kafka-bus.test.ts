import { createRequire } from 'node:module'
import { zstdCompressSync } from 'node:zlib'
import { expect, it } from 'vitest'
import {
  createKafkaBus, registerCodecs, type KafkaBusOptions,
} from '../../../services/kafka/kafka-bus.ts'
import type { startConsumer } from '../../../services/kafka/consumer.ts'

/** A bus whose consumers only record their retries and stops. */
function newBus (more: Partial<KafkaBusOptions> = {}) {
  const stops: string[] = []
  const retries: ((error: unknown) => void)[] = []
  const start: typeof startConsumer = ({ consume: { group }, onRetry }) => {
    retries.push(error => onRetry(error, 1))
    return { ready: () => true, stop: async () => { stops.push(group) } }
  }
  const bus = createKafkaBus(
    { brokers: ['127.0.0.1:1'], clientId: 'c', onFatal: () => {}, ...more }, start)
  return { bus, stops, retries }
}

const options = {
  topics: ['t'], onAssigned: () => {}, onDelivery: async () => ({ kind: 'done' as const }),
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

type Codec = {
  readonly compress: (encoder: { readonly buffer: Buffer }) => Promise<Buffer>
  readonly decompress: (buffer: Buffer) => Promise<Buffer>
}
const { lookupCodec, lookupCodecByAttributes } =
  createRequire(import.meta.url)('kafkajs/src/protocol/message/compression')

it('the client decompresses zstd', async () => {
  registerCodecs()
  const { decompress }: Codec = lookupCodecByAttributes(4)
  expect(await decompress(zstdCompressSync('contacts'))).toEqual(Buffer.from('contacts'))
  const codec: Codec = lookupCodec(4)
  const packed = await codec.compress({ buffer: Buffer.from('back') })
  expect(await codec.decompress(packed)).toEqual(Buffer.from('back'))
})
