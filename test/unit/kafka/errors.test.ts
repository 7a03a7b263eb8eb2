import { KafkaJSNumberOfRetriesExceeded, KafkaJSProtocolError } from 'kafkajs'
import { describe, expect, it } from 'vitest'
import { isPassing, kafkaTypeOf, refusalOf } from '../../../services/kafka/errors.ts'

/** What kafkajs makes of a refusal of the broker. */
const refusal = (type: string, retriable: boolean) =>
  Object.assign(new KafkaJSProtocolError(type), { type, retriable })

/** What kafkajs throws once it has given up. */
const givenUp = (cause: Error) => Object.assign(
  new KafkaJSNumberOfRetriesExceeded(cause, { retryCount: 8, retryTime: 100 }),
  { cause, retriable: false })

describe('an error of the client', () => {
  it('has the type of the refusal, however deep it is wrapped', () => {
    const error = refusal('MESSAGE_TOO_LARGE', false)
    expect(kafkaTypeOf(error)).toBe('MESSAGE_TOO_LARGE')
    expect(kafkaTypeOf(new Error('outer', { cause: givenUp(error) }))).toBe('MESSAGE_TOO_LARGE')
  })

  it.each([
    new Error('plain'), 'a text', undefined, { type: 'MESSAGE_TOO_LARGE' },
    Object.assign(new Error('odd'), { type: 7 }),
  ])('%s has none', error => {
    expect(kafkaTypeOf(error)).toBe('')
  })

  it('may be over at the next try if its cause may, though kafkajs gave up', () => {
    expect(isPassing(refusal('NOT_LEADER_FOR_PARTITION', true))).toBe(true)
    expect(isPassing(givenUp(refusal('NOT_LEADER_FOR_PARTITION', true)))).toBe(true)
  })

  it('may be over if it only means that nobody answered where the coordinator is', () => {
    const error = Object.assign(new Error('no coordinator'), {
      name: 'KafkaJSGroupCoordinatorNotFound', retriable: false,
    })
    expect(isPassing(error)).toBe(true)
  })

  it.each([
    refusal('MESSAGE_TOO_LARGE', false),
    givenUp(refusal('TOPIC_AUTHORIZATION_FAILED', false)),
    new Error('plain'),
    { retriable: true },
  ])('%s is not over at the next try', error => {
    expect(isPassing(error)).toBe(false)
  })
})

describe('a refusal that somebody has to set right', () => {
  const coded = (code: string) => Object.assign(new Error('Connection error'), { code })

  it('is known however deep it is wrapped', () => {
    const signIn = Object.assign(new Error('no'), { name: 'KafkaJSSASLAuthenticationError' })
    expect(refusalOf(givenUp(signIn))).toMatch(/KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD$/)
    expect(refusalOf(givenUp(coded('SELF_SIGNED_CERT_IN_CHAIN')))).toMatch(/NODE_EXTRA_CA_CERTS/)
    expect(refusalOf(givenUp(refusal('GROUP_AUTHORIZATION_FAILED', false)))).toBe(
      'Kafka denies this user something (GROUP_AUTHORIZATION_FAILED): give KAFKA_SASL_USERNAME ' +
      'the right to it')
  })

  it('is nothing that passes by itself', () => {
    expect(refusalOf(givenUp(coded('ECONNREFUSED')))).toBeUndefined()
    expect(refusalOf('no error')).toBeUndefined()
  })
})
