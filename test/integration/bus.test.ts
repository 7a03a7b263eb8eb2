import { createHook } from 'node:async_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { closeAfterAll } from '../support/close-after-all.ts'
import { describeBusContract } from '../support/kafka/bus-contract.ts'
import { openKafkaHarness } from '../support/kafka/harness.ts'
import { stackEnv } from '../support/stacks/stack.ts'

const brokers = (stackEnv().KAFKA_BROKERS ?? '').split(',')

const harness = closeAfterAll(await openKafkaHarness(brokers))

describeBusContract('kafkajs', harness)

it('the producer of kafkajs sets no timer to send, nor while its connection idles', async () => {
  const { bus, createTopic } = harness
  const topic = await createTopic(1)
  const send = () => bus.producer('idle').send([{ topic, key: 'a', value: null, headers: {} }])
  await send()
  const warnings: string[] = []
  const onWarning = ({ name }: Error) => { warnings.push(name) }
  process.on('warning', onWarning)
  const timers: string[] = []
  const hook = createHook({
    init: (_id, type) => { if (type === 'Timeout') timers.push(String(new Error().stack)) },
  }).enable()
  for (let sends = 0; sends < 20; sends++) await send()
  await sleep(300)
  hook.disable()
  process.off('warning', onWarning)
  expect(timers.filter(stack => /kafkajs|runtime\/kafka/.test(stack))).toEqual([])
  expect(warnings).toEqual([])
})
