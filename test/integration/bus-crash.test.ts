import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { closeAfterAll } from '../support/close-after-all.ts'
import { eventually } from '../support/eventually.ts'
import { openKafkaHarness } from '../support/kafka/harness.ts'
import { startOwnBroker } from '../support/kafka/own-broker.ts'

const broker = closeAfterAll(await startOwnBroker())
const environment = closeAfterAll(await openKafkaHarness(broker.brokers))

it('keeps every acknowledged message and delivers it while the broker is killed', async () => {
  const topic = await environment.createTopic(4)
  const seen = new Set<string>()
  const consumption = await environment.bus.consume({
    group: 'readers',
    topics: [topic],
    onAssigned: () => {},
    onDelivery: async ({ messages, commit }) => {
      for (const { value } of messages) seen.add(String(value))
      commit((messages.at(-1)?.offset ?? -1n) + 1n)
    },
  })
  const acknowledged = new Set<string>()
  const over = new AbortController()
  const senders = [0, 1, 2].map(async (sender) => {
    for (let index = 0; !over.signal.aborted; index++) {
      const value = `${sender}-${index}`
      const headers = { sender: `${sender}` }
      const message = { topic, key: `${sender}-${index % 5}`, value: Buffer.from(value), headers }
      await environment.bus.producer(`sender-${sender % 2}`).send([message])
      acknowledged.add(value)
      // Sends that never pause would keep the broker from anything else.
      await sleep(2)
    }
  })
  const untilMore = async (messages: number) => {
    const goal = acknowledged.size + messages
    await eventually(() => expect(acknowledged.size).toBeGreaterThanOrEqual(goal))
  }
  for (let crash = 0; crash < 3; crash++) {
    await untilMore(50)
    await broker.crash()
  }
  await untilMore(50)
  over.abort()
  await Promise.all(senders)
  await eventually(() =>
    expect([...acknowledged].filter((value) => !seen.has(value))).toEqual([]))
  await eventually(() => expect(consumption.ready()).toBe(true))
  expect(environment.fatal).toEqual([])
  await consumption.stop()
})
