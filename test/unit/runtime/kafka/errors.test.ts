import { KafkaJSNumberOfRetriesExceeded, KafkaJSProtocolError } from 'kafkajs'
import { describe, expect, it } from 'vitest'
import {
  isTransient, kafkaTypeOf, accessErrorOf,
} from '../../../../services/runtime/kafka/connection.ts'

/** The error of kafkajs for a rejection by the broker. */
const refusal = (type: string, retriable: boolean) =>
  Object.assign(new KafkaJSProtocolError(type), { type, retriable })

/** The error of kafkajs after its last retry. */
const givenUp = (cause: Error) => Object.assign(
  new KafkaJSNumberOfRetriesExceeded(cause, { retryCount: 8, retryTime: 100 }),
  { cause, retriable: false })

describe('an error of kafkajs', () => {
  it('has the protocol error type of its causes', () => {
    const error = refusal('MESSAGE_TOO_LARGE', false)
    expect(kafkaTypeOf(error)).toBe('MESSAGE_TOO_LARGE')
    expect(kafkaTypeOf(new Error('outer', { cause: givenUp(error) }))).toBe('MESSAGE_TOO_LARGE')
  })

  it.each([
    new Error('plain'), 'a text', undefined, { type: 'MESSAGE_TOO_LARGE' },
    Object.assign(new Error('odd'), { type: 7 }),
  ])('%s has no protocol error type', error => {
    expect(kafkaTypeOf(error)).toBe('')
  })

  it('is transient if its cause is', () => {
    expect(isTransient(refusal('NOT_LEADER_FOR_PARTITION', true))).toBe(true)
    expect(isTransient(givenUp(refusal('NOT_LEADER_FOR_PARTITION', true)))).toBe(true)
  })

  it.each([
    refusal('MESSAGE_TOO_LARGE', false),
    givenUp(refusal('TOPIC_AUTHORIZATION_FAILED', false)),
    new Error('plain'),
    { retriable: true },
  ])('%s is not transient', error => {
    expect(isTransient(error)).toBe(false)
  })
})

describe('an access error of Kafka', () => {
  const coded = (code: string) => Object.assign(new Error('Connection error'), { code })

  it('is found in the causes', () => {
    const signIn = Object.assign(new Error('no'), { name: 'KafkaJSSASLAuthenticationError' })
    expect(accessErrorOf(givenUp(signIn))).toMatch(/KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD$/)
    expect(accessErrorOf(givenUp(coded('SELF_SIGNED_CERT_IN_CHAIN'))))
      .toMatch(/NODE_EXTRA_CA_CERTS/)
    expect(accessErrorOf(givenUp(refusal('GROUP_AUTHORIZATION_FAILED', false)))).toBe(
      'Kafka authorization failed (GROUP_AUTHORIZATION_FAILED): grant the missing ACL to ' +
      'the user of this service')
  })
})
