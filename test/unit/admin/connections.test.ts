import { expect, it } from 'vitest'
import { explainKafkaError, withBrokers } from '../../../services/admin/connections.ts'

/** An error with the name of a kafkajs error. */
const kafkaError = (name: string) => Object.assign(new Error('connect'), { name })

it('a Kafka error names the brokers and what to do', () => {
  expect(explainKafkaError(kafkaError('KafkaJSConnectionError'), ['a:1', 'b:2'])).toMatchObject({
    name: 'CommandFailure',
    message: expect.stringMatching(/^Kafka does not respond at a:1, b:2\. .*up"/),
  })
  expect(explainKafkaError(kafkaError('KafkaJSSASLAuthenticationError'), [])).toMatchObject({
    name: 'CommandFailure', message: expect.stringContaining('KAFKA_SASL_PASSWORD'),
  })
})

it('an error that is not of Kafka stays unchanged', () => {
  const reset = Object.assign(new Error('of Redis'), { code: 'ECONNRESET' })
  const fault = kafkaError('KafkaJSProtocolError')
  expect([explainKafkaError(reset, []), explainKafkaError(fault, [])]).toEqual([reset, fault])
})

it('a connection to the brokers needs KAFKA_BROKERS', async () => {
  await expect(withBrokers({}, async () => {})).rejects.toThrow('KAFKA_BROKERS is missing')
})
