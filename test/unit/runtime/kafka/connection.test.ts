import { describe, expect, it } from 'vitest'
import { kafkaConnectionOf, kafkaOptionsOf } from '../../../../services/runtime/kafka/connection.ts'

const KAFKA_BROKERS = ['a:1', 'b:2']

describe('the connection to Kafka', () => {
  it('has no TLS and no user by default', () => {
    const open = kafkaConnectionOf({ KAFKA_BROKERS, KAFKA_TLS: false })
    expect(open).toStrictEqual({ brokers: ['a:1', 'b:2'] })
    expect(kafkaOptionsOf(open)).toStrictEqual({ brokers: ['a:1', 'b:2'] })
  })

  it('has TLS and a user if configured', () => {
    const secure = kafkaConnectionOf({
      KAFKA_BROKERS,
      KAFKA_TLS: true,
      KAFKA_SASL_MECHANISM: 'scram-sha-512',
      KAFKA_SASL_USERNAME: 'jobs',
      KAFKA_SASL_PASSWORD: 'secret',
    })
    expect(kafkaOptionsOf(secure)).toStrictEqual({
      brokers: ['a:1', 'b:2'],
      ssl: true,
      sasl: { mechanism: 'scram-sha-512', username: 'jobs', password: 'secret' },
    })
  })
})
