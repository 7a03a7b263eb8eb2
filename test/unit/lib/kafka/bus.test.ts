import { expect, it, vi } from 'vitest'
import { createKafkaBus } from '../../../../services/lib/kafka/bus.ts'

const stops = vi.hoisted(() => [] as string[])
vi.mock('../../../../services/lib/kafka/consumer.ts', () => ({
  consumerDefaults: {},
  startConsumer: ({ consume: { group } }: { readonly consume: { readonly group: string } }) =>
    ({ ready: () => true, stop: async () => { stops.push(group) } }),
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
