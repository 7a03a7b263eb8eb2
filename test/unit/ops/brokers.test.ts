import { expect, it } from 'vitest'
import { faultOf, withBrokers } from '../../../services/ops/brokers.ts'

/** As kafkajs names its errors. */
const kafkaError = (name: string) => Object.assign(new Error('connect'), { name })

it('says which brokers do not answer, and what to do', () => {
  expect(faultOf(kafkaError('KafkaJSConnectionError'), ['a:1', 'b:2'])).toMatchObject({
    name: 'UsageError',
    message: expect.stringMatching(/^Kafka does not answer at a:1, b:2\. .*up"/),
  })
  expect(faultOf(kafkaError('KafkaJSSASLAuthenticationError'), [])).toMatchObject({
    name: 'UsageError', message: expect.stringContaining('KAFKA_SASL_PASSWORD'),
  })
})

it('leaves every other failure as it is', () => {
  const reset = Object.assign(new Error('of Redis'), { code: 'ECONNRESET' })
  const fault = kafkaError('KafkaJSProtocolError')
  expect([faultOf(reset, []), faultOf(fault, [])]).toEqual([reset, fault])
})

it('asks for addresses before it connects', async () => {
  await expect(withBrokers({}, async () => {})).rejects.toThrow('KAFKA_BROKERS is missing')
})
