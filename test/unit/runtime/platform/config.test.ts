import { describe, expect, it } from 'vitest'
import Type, { type TObject } from 'typebox'
import {
  commonConfig, ConfigError, defineConfig, kafkaKeys, loadConfig, pick,
} from '../../../../services/runtime/platform/config.ts'

const schema = defineConfig({
  ...pick(commonConfig, ['KAFKA_BROKERS', 'CACHE_SECRETS']),
  PARTS: Type.Integer({ minimum: 1, default: 200, description: 'Rows of a part.' }),
  STRICT: Type.Boolean({ default: false, description: 'Refuses more.' }),
  LANES: Type.Array(Type.Enum(['small', 'bulk']), {
    default: ['small', 'bulk'], description: 'Lanes.',
  }),
  NOTE: Type.Optional(Type.String({ description: 'Anything.' })),
})
const CACHE_SECRETS = JSON.stringify({ a: Buffer.alloc(32).toString('base64') })
const required = { KAFKA_BROKERS: 'a:1, b:2', CACHE_SECRETS }

const faultsOf = (env: Record<string, string>, of: TObject = schema) => {
  try {
    loadConfig(of, env)
    return []
  } catch (error) {
    return (error as ConfigError).faults
  }
}

describe('a configuration', () => {
  it('is converted from text, with defaults for what is missing or empty', () => {
    const config =
      loadConfig(schema, { ...required, PARTS: '50', STRICT: 'true', LANES: '', NOTE: ' ' })
    expect(config).toMatchObject({
      KAFKA_BROKERS: ['a:1', 'b:2'],
      CACHE_SECRETS: { a: Buffer.alloc(32).toString('base64') },
      PARTS: 50,
      STRICT: true,
      LANES: ['small', 'bulk'],
    })
    expect(config).not.toHaveProperty('NOTE')
  })

  it('has an empty list for an optional one that is empty, nothing for a missing one', () => {
    const hosts = Type.Object({ HOSTS: Type.Optional(Type.Array(Type.String())) })
    expect(loadConfig(hosts, { HOSTS: ' ' })).toEqual({ HOSTS: [] })
    expect(loadConfig(hosts, {})).toEqual({})
  })

  it('reports all faults at once', () => {
    const env = { CACHE_SECRETS: '{', PARTS: '0', STRICT: 'yes', LANES: 'fast', LOG_LEVEL: 'loud' }
    expect(faultsOf(env)).toEqual([
      'LOG_LEVEL must be one of fatal, error, warn, info, debug, trace, silent. ' +
        'Set LOG_LEVEL (Minimum level of log lines).',
      'KAFKA_BROKERS is missing. Set it, for example KAFKA_BROKERS=localhost:9092 ' +
        '(Addresses of the brokers, host:port).',
      expect.stringMatching(
        /^CACHE_SECRETS is not valid JSON\. Set it, for example CACHE_SECRETS=\{"1":"<out/),
      'PARTS must be >= 1. Set PARTS (Rows of a part).',
      'STRICT must be true or false. Set STRICT (Refuses more).',
      'LANES at "0" must be one of small, bulk. Set LANES (Lanes).',
    ])
  })
})

describe('the Kafka connection', () => {
  const ofKafka = Type.Object(pick(commonConfig, kafkaKeys))
  const brokers = { KAFKA_BROKERS: 'a:1' }
  const account = {
    KAFKA_SASL_MECHANISM: 'plain', KAFKA_SASL_USERNAME: 'jobs', KAFKA_SASL_PASSWORD: 'hunter2',
  }

  it('needs mechanism, user and password together', () => {
    expect(loadConfig(ofKafka, { ...brokers, ...account, KAFKA_TLS: 'true' }))
      .toEqual({ KAFKA_BROKERS: ['a:1'], KAFKA_TLS: true, ...account })
    const { KAFKA_SASL_PASSWORD, KAFKA_SASL_MECHANISM } = account
    expect(faultsOf({ ...brokers, KAFKA_SASL_MECHANISM }, ofKafka)).toEqual([
      'KAFKA_SASL_USERNAME is missing, which KAFKA_SASL_MECHANISM needs. ' +
        'Set KAFKA_SASL_USERNAME (SASL user).',
      'KAFKA_SASL_PASSWORD is missing, which KAFKA_SASL_MECHANISM needs. ' +
        'Set KAFKA_SASL_PASSWORD (Password of the SASL user).',
    ])
    expect(faultsOf({ ...brokers, KAFKA_SASL_PASSWORD, KAFKA_SASL_USERNAME: ' ' }, ofKafka))
      .toEqual([
        expect.stringMatching(/^KAFKA_SASL_MECHANISM is missing, which KAFKA_SASL_PASSWORD needs/),
        expect.stringMatching(/^KAFKA_SASL_USERNAME is missing, which KAFKA_SASL_PASSWORD needs/),
      ])
  })

  it.each([
    ['oauthbearer', 'KAFKA_OAUTH_TOKEN_URL KAFKA_OAUTH_CLIENT_ID KAFKA_OAUTH_CLIENT_SECRET'],
    ['aws-msk-iam', 'KAFKA_AWS_REGION'],
  ])('needs for %s: %s', (mechanism, needed) => {
    expect(faultsOf({ ...brokers, KAFKA_SASL_MECHANISM: mechanism }, ofKafka)
      .map(fault => fault.split(' ')[0])).toEqual(needed.split(' '))
  })
})
