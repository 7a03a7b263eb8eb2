import { describe, expect, it } from 'vitest'
import type { OutgoingMessage } from '../../services/runtime/kafka/bus.ts'
import { closeAfterAll } from '../support/close-after-all.ts'
import { describeBusContract } from '../support/kafka/bus-contract.ts'
import { createMemoryBus, type MemoryBusOptions } from '../support/kafka/memory-bus.ts'

for (const seed of [1, 2, 3]) {
  const fatal: unknown[] = []
  const partitions = new Map<string, number>()
  const bus = closeAfterAll(createMemoryBus({
    seed,
    partitionsOf: (topic) => partitions.get(topic) ?? 4,
    onFatal: (error) => { fatal.push(error) },
  }))
  const createTopic = async (count: number) => {
    const topic = `topic-${partitions.size}`
    partitions.set(topic, count)
    return topic
  }
  describeBusContract(`in memory, seed ${seed}`, { bus, fatal, createTopic })
}

const messages = (count: number): OutgoingMessage[] => Array.from({ length: count }, (_, index) => (
  { topic: 'rows', key: `key-${index % 7}`, value: Buffer.from(`${index}`), headers: {} }))

/** Consumes everything of one group, committing each delivery, and returns the deliveries. */
async function consumeAll (options: MemoryBusOptions) {
  const bus = createMemoryBus(options)
  const deliveries: string[] = []
  const consume = () => bus.consume({
    group: 'readers',
    topics: ['rows'],
    onAssigned: () => { deliveries.push('assigned') },
    onDelivery: async ({ partition, messages: delivered, commit }) => {
      deliveries.push(`${partition}: ${delivered.map(({ value }) => value).join(' ')}`)
      commit((delivered.at(-1)?.offset ?? -1n) + 1n)
    },
  })
  const consumption = await consume()
  for (const message of messages(30)) await bus.producer('any').send([message])
  await bus.idle()
  return { bus, deliveries, consume, consumption }
}

describe('the bus in memory', () => {
  it('is deterministic for a seed and differs for another', async () => {
    const [first, same, other] = await Promise.all(
      [5, 5, 6].map((seed) => consumeAll({ seed, maxDelivery: 3, duplicateSends: 0.2 })))
    expect(first?.deliveries).toEqual(same?.deliveries)
    expect(first?.deliveries).not.toEqual(other?.deliveries)
  })

  it('duplicates sends with the given probability', async () => {
    const { bus } = await consumeAll({ seed: 1, duplicateSends: 0.5 })
    const values = bus.messages('rows').map(({ value }) => String(value))
    expect(new Set(values).size).toBe(30)
    expect(values.length).toBeGreaterThan(35)
    expect(values.length).toBeLessThan(55)
  })

  it('delivers everything again after a replay', async () => {
    const { bus, deliveries } = await consumeAll({ seed: 1 })
    const before = deliveries.splice(0).filter((line) => line !== 'assigned')
    bus.replay('readers')
    await bus.idle()
    const values = (lines: readonly string[]) =>
      lines.flatMap((line) => line.split(': ')[1]?.split(' ') ?? []).toSorted()
    expect(deliveries.shift()).toBe('assigned')
    expect(values(deliveries)).toEqual(values(before))
  })

  it('loses the newest commit of a crashed consumer, and redelivers to its successor', async () => {
    const bus = createMemoryBus({ partitionsOf: () => 1, maxDelivery: 1 })
    const gate = Promise.withResolvers<void>()
    const first = await bus.consume({
      group: 'readers',
      topics: ['rows'],
      onAssigned: () => {},
      onDelivery: async ({ messages: [message], commit }) => {
        if (message?.offset === 2n) await gate.promise
        commit((message?.offset ?? 0n) + 1n)
      },
    })
    await bus.producer('any').send(messages(5))
    await new Promise((resolve) => setImmediate(resolve))
    bus.crash(first)
    gate.resolve()
    const offsets: bigint[] = []
    await bus.consume({
      group: 'readers',
      topics: ['rows'],
      onAssigned: () => {},
      onDelivery: async ({ messages: [message] }) => {
        offsets.push(message?.offset ?? -1n)
      },
    })
    await bus.idle()
    expect(offsets).toEqual([1n, 2n, 3n, 4n])
    expect(bus.committed('readers', 'rows', 0)).toBe(1n)
  })
})
