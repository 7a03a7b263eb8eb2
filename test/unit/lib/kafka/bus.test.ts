import { expect, it, vi } from 'vitest'
import { createKafkaBus } from '../../../../services/lib/kafka/bus.ts'

type Started = {
  readonly consume: { readonly group: string }
  readonly onRetry: (error: unknown) => void
}

const stops = vi.hoisted(() => [] as string[])
const retries = vi.hoisted(() => [] as ((error: unknown) => void)[])
vi.mock('../../../../services/lib/kafka/consumer.ts', () => ({
  consumerDefaults: {},
  startConsumer: ({ consume: { group }, onRetry }: Started) => {
    retries.push(onRetry)
    return { ready: () => true, stop: async () => { stops.push(group) } }
  },
}))

const newBus = () => createKafkaBus({ brokers: ['127.0.0.1:1'], clientId: 'c', onFatal: () => {} })
const options = {
  topics: ['t'], onAssigned: () => {}, onDelivery: async () => ({ go: 'next' as const }),
}

it('a consumption that was stopped is held no longer', async () => {
  const bus = newBus()
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
  const bus = newBus()
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
  const bus = createKafkaBus({
    brokers: ['127.0.0.1:1'],
    clientId: 'c',
    onFatal: () => {},
    log: (level, message) => told.push([level, message.split(':', 1)[0]]),
  })
  await bus.consume({ ...options, group: 'one' })
  await bus.consume({ ...options, group: 'two' })
  const failure = (more: object) => Object.assign(new Error('no connection'), more)
  for (const onRetry of retries.slice(-2)) {
    onRetry(failure({ code: 'ECONNREFUSED' }))
    onRetry(failure({ name: 'KafkaJSSASLAuthenticationError' }))
    onRetry(failure({ code: 'DEPTH_ZERO_SELF_SIGNED_CERT' }))
  }
  expect(told).toEqual([
    ['warn', 'Kafka is not reached yet'],
    ['error', 'Kafka refuses to sign this user in'],
    ['error', 'The certificate of Kafka is not trusted'],
    ['warn', 'Kafka is not reached yet'],
  ])
  await bus.close()
})
