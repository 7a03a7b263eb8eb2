import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import type { Delivery, RawMessage } from '../../services/lib/bus.ts'
import type { BusHarness } from '../support/bus-contract.ts'
import { describeBusFaults } from '../support/bus-fault-contract.ts'
import { openKafkaFaultWorld } from '../support/bus-fault-world.ts'
import { openKafkaHarness } from '../support/kafka-harness.ts'
import { startOwnBroker, type OwnBroker } from '../support/own-broker.ts'

describeBusFaults('kafkajs', () =>
  openKafkaFaultWorld((inject('stack').KAFKA_BROKERS ?? '').split(',')))

/** What no adapter in memory can show: a broker that dies, and time that passes. */
describe('the bus on a broker of its own', () => {
  let broker: OwnBroker
  let world: BusHarness
  beforeAll(async () => {
    broker = await startOwnBroker()
    world = await openKafkaHarness(broker.brokers)
  })
  afterAll(async () => {
    await world?.close()
    await broker?.close()
  })

  it('keeps every acknowledged message and delivers it while the broker is killed', async () => {
    const topic = await world.createTopic(4)
    const seen = new Set<string>()
    const consumption = await world.bus.consume({
      group: `faults-${process.pid}`,
      topics: [topic],
      onAssigned: () => {},
      onDelivery: async ({ messages, commit }) => {
        for (const { value } of messages) seen.add(String(value))
        await commit((messages.at(-1)?.offset ?? -1n) + 1n)
        return { go: 'next' }
      },
    })
    const acknowledged = new Set<string>()
    const over = new AbortController()
    const senders = [0, 1, 2].map(async (sender) => {
      for (let index = 0; !over.signal.aborted; index++) {
        const value = `${sender}-${index}`
        const headers = { sender: `${sender}` }
        const message = { topic, key: `${sender}-${index % 5}`, value: Buffer.from(value), headers }
        await world.bus.producer(`sender-${sender % 2}`).send([message])
        acknowledged.add(value)
        await sleep(2)
      }
    })
    const untilMore = async (messages: number) => {
      const goal = acknowledged.size + messages
      await expect.poll(() => acknowledged.size, { timeout: 40_000 }).toBeGreaterThanOrEqual(goal)
    }
    for (let crash = 0; crash < 3; crash++) {
      await untilMore(50)
      await broker.crash()
    }
    await untilMore(50)
    over.abort()
    await Promise.all(senders)
    await expect.poll(() => [...acknowledged].filter((value) => !seen.has(value)).length,
      { timeout: 40_000, interval: 100 }).toBe(0)
    await expect.poll(() => consumption.ready(), { timeout: 20_000 }).toBe(true)
    expect(world.fatal).toEqual([])
    await consumption.stop()
  })

  it('stays in the group while a handler takes longer than the session', async () => {
    const topic = await world.createTopic(1)
    const done = Promise.withResolvers<void>()
    let generations = 0
    const signals: boolean[] = []
    const onDelivery = async ({ messages, signal, commit }: Delivery) => {
      await sleep(8_000)
      signals.push(signal.aborted)
      await commit((messages.at(-1)?.offset ?? -1n) + 1n)
      done.resolve()
      return { go: 'next' } as const
    }
    const consumption = await world.bus.consume(
      { group: 'patient', topics: [topic], onAssigned: () => { generations++ }, onDelivery })
    await world.bus.producer('patient').send([{ topic, key: 'a', value: null, headers: {} }])
    await done.promise
    expect(consumption.ready()).toBe(true)
    await consumption.stop()
    expect(generations).toBe(1)
    expect(signals).toEqual([false])
  })

  it('sets no timer in an idle connection but the check of request timeouts', async () => {
    const topic = await world.createTopic(1)
    const warnings: string[] = []
    const onWarning = ({ name }: Error) => { warnings.push(name) }
    process.on('warning', onWarning)
    const producer = world.bus.producer('idle')
    await producer.send([{ topic, key: 'a', value: null, headers: {} }])
    const original = globalThis.setTimeout
    let timers = 0
    globalThis.setTimeout = Object.assign(
      (...args: Parameters<typeof setTimeout>) => {
        timers++
        return original(...args)
      }, original) as typeof setTimeout
    await sleep(1_000)
    globalThis.setTimeout = original
    process.off('warning', onWarning)
    expect(timers).toBeLessThan(5)
    expect(warnings).toEqual([])
  })

  it('hands over a lone message within milliseconds', async () => {
    const topic = await world.createTopic(1)
    const arrived: RawMessage[] = []
    let wake = () => {}
    const consumption = await world.bus.consume({
      group: 'swift',
      topics: [topic],
      onAssigned: () => {},
      onDelivery: async ({ messages }) => {
        arrived.push(...messages)
        wake()
        return { go: 'next' }
      },
    })
    const sends: number[] = []
    const ways: number[] = []
    for (let index = 0; index < 60; index++) {
      const arrival = new Promise<void>((resolve) => { wake = resolve })
      const start = performance.now()
      const message = { topic, key: 'a', value: Buffer.alloc(200), headers: {} }
      await world.bus.producer('swift').send([message])
      sends.push(performance.now() - start)
      await arrival
      ways.push(performance.now() - start)
      await sleep(20)
    }
    await consumption.stop()
    const median = (values: number[]) => values.toSorted((a, b) => a - b)[30] ?? Infinity
    expect(arrived).toHaveLength(60)
    expect(median(sends)).toBeLessThan(20)
    expect(median(ways)).toBeLessThan(50)
  })
})
