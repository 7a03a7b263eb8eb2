import { expect, it } from 'vitest'
import { createKafkaBus, type KafkaBusOptions } from '../../../services/kafka/kafka-bus.ts'
import type { startConsumer } from '../../../services/kafka/consumer.ts'

/** A bus whose consumers only tell how they began and that they stopped. */
function newBus (more: Partial<KafkaBusOptions> = {}) {
  const stops: string[] = []
  const retries: ((error: unknown) => void)[] = []
  const begin: typeof startConsumer = ({ consume: { group }, onRetry }) => {
    retries.push(error => onRetry(error, 1))
    return { ready: () => true, stop: async () => { stops.push(group) } }
  }
  const bus = createKafkaBus(
    { brokers: ['127.0.0.1:1'], clientId: 'c', onFatal: () => {}, ...more }, begin)
  return { bus, stops, retries }
}

const options = {
  topics: ['t'], onAssigned: () => {}, onDelivery: async () => ({ go: 'next' as const }),
}

it('a consumption that was stopped is held no longer', async () => {
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

it('a producer that was closed is replaced by a new one of its name', async () => {
  const { bus } = newBus()
  const first = bus.producer('results')
  expect(bus.producer('results')).toBe(first)
  await first.close()
  const second = bus.producer('results')
  expect(second).not.toBe(first)
  await expect(second.send([])).resolves.toBeUndefined()
  await bus.close()
})

it('what somebody has to set right is told once, and what passes each time', async () => {
  const told: unknown[] = []
  const { bus, retries } = newBus({
    log: (level, message) => told.push([level, message.split(':', 1)[0]]),
  })
  await bus.consume({ ...options, group: 'one' })
  await bus.consume({ ...options, group: 'two' })
  const failure = (more: object) => Object.assign(new Error('no connection'), more)
  for (const onRetry of retries) {
    onRetry(failure({ code: 'ECONNREFUSED' }))
    onRetry(failure({ name: 'KafkaJSSASLAuthenticationError' }))
    onRetry(failure({ code: 'DEPTH_ZERO_SELF_SIGNED_CERT' }))
  }
  expect(told).toEqual([
    ['warn', 'Kafka is not reached yet'],
    ['error', 'Kafka authentication failed'],
    ['error', 'The certificate of Kafka is not trusted'],
    ['warn', 'Kafka is not reached yet'],
  ])
  await bus.close()
})
