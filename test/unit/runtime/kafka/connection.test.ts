import { createHash, createHmac } from 'node:crypto'
import { KafkaJSNumberOfRetriesExceeded, KafkaJSProtocolError, type SASLOptions } from 'kafkajs'
import { afterEach, describe, expect, it, vi } from 'vitest'
import {
  describeAccessError, isTransient, toKafkaConnection, kafkaErrorType,
} from '../../../../services/runtime/kafka/connection.ts'

const KAFKA_BROKERS = ['a:1', 'b:2']

describe('a token for Amazon MSK', () => {
  afterEach(() => {
    vi.unstubAllEnvs()
    vi.useRealTimers()
  })
  const SECRET = 'made-up secret'
  const provider = () => {
    for (const [name, value] of Object.entries({
      AWS_ACCESS_KEY_ID: 'AKIDEXAMPLE',
      AWS_SECRET_ACCESS_KEY: SECRET,
      AWS_SESSION_TOKEN: 'session+/=',
      AWS_EC2_METADATA_DISABLED: 'true',
    })) vi.stubEnv(name, value)
    const { sasl } = toKafkaConnection({
      KAFKA_BROKERS,
      KAFKA_TLS: true,
      KAFKA_SASL_MECHANISM: 'aws-msk-iam',
      KAFKA_AWS_REGION: 'eu-central-1',
    })
    const { mechanism, oauthBearerProvider } =
      sasl as Extract<SASLOptions, { mechanism: 'oauthbearer' }>
    expect(mechanism).toBe('oauthbearer')
    return oauthBearerProvider
  }

  it('is the signed address of the action kafka-cluster:Connect, in base64url', async () => {
    vi.useFakeTimers({ now: Date.UTC(2026, 7, 11, 10, 0, 2), toFake: ['Date'] })
    const { value } = await provider()()
    expect(value).toMatch(/^[\w-]+$/)
    const url = new URL(Buffer.from(value, 'base64url').toString())
    const {
      'X-Amz-Signature': signature, 'User-Agent': agent, ...signed
    } = Object.fromEntries(url.searchParams)
    expect([url.origin, url.pathname, agent])
      .toEqual(['https://kafka.eu-central-1.amazonaws.com', '/', 'verification-jobs'])
    const scope = '20260811/eu-central-1/kafka-cluster/aws4_request'
    expect(signed).toEqual({
      Action: 'kafka-cluster:Connect',
      'X-Amz-Algorithm': 'AWS4-HMAC-SHA256',
      'X-Amz-Credential': `AKIDEXAMPLE/${scope}`,
      'X-Amz-Date': '20260811T100002Z',
      'X-Amz-Expires': '900',
      'X-Amz-Security-Token': 'session+/=',
      'X-Amz-SignedHeaders': 'host',
    })
    // Signature Version 4, as AWS documents it.
    const query = Object.entries(signed).map(pair => pair.map(encodeURIComponent).join('='))
      .toSorted().join('&')
    const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')
    const request =
      ['GET', '/', query, 'host:kafka.eu-central-1.amazonaws.com', '', 'host', sha256('')]
    const text = ['AWS4-HMAC-SHA256', '20260811T100002Z', scope, sha256(request.join('\n'))]
    const key = scope.split('/').reduce<string | Buffer>(
      (parent, part) => createHmac('sha256', parent).update(part).digest(), `AWS4${SECRET}`)
    expect(signature).toBe(createHmac('sha256', key).update(text.join('\n')).digest('hex'))
  })

  it('serves all connections until shortly before its end', async () => {
    vi.useFakeTimers({ now: Date.UTC(2026, 7, 11), toFake: ['Date'] })
    const tokenOf = provider()
    const { value } = await tokenOf()
    vi.setSystemTime(Date.now() + 869_000)
    expect(await tokenOf()).toEqual({ value })
    vi.setSystemTime(Date.now() + 1_000)
    expect((await tokenOf()).value).not.toBe(value)
  })
})

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
    expect(kafkaErrorType(error)).toBe('MESSAGE_TOO_LARGE')
    expect(kafkaErrorType(new Error('outer', { cause: givenUp(error) }))).toBe('MESSAGE_TOO_LARGE')
  })

  it.each([
    new Error('plain'), 'a text', undefined, { type: 'MESSAGE_TOO_LARGE' },
    Object.assign(new Error('odd'), { type: 7 }),
  ])('%s has no protocol error type', error => {
    expect(kafkaErrorType(error)).toBe('')
  })

  it('is transient if its cause is', () => {
    expect(isTransient(refusal('NOT_LEADER_FOR_PARTITION', true))).toBe(true)
    expect(isTransient(givenUp(refusal('NOT_LEADER_FOR_PARTITION', true)))).toBe(true)
    expect(isTransient(givenUp(refusal('UNKNOWN', false)))).toBe(true)
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
    expect(describeAccessError(givenUp(signIn)))
      .toMatch(/KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD$/)
    expect(describeAccessError(givenUp(coded('SELF_SIGNED_CERT_IN_CHAIN'))))
      .toMatch(/NODE_EXTRA_CA_CERTS/)
    expect(describeAccessError(givenUp(refusal('GROUP_AUTHORIZATION_FAILED', false)))).toBe(
      'Kafka authorization failed (GROUP_AUTHORIZATION_FAILED): grant the missing ACL to ' +
      'the user of this service')
  })
})
