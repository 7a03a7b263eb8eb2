import { closeAfterAll } from '../support/close-after-all.ts'
import { describeBusContract } from '../support/kafka/bus-contract.ts'
import { createMemoryBus } from '../support/kafka/memory-bus.ts'

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
