import { describe, expect, it } from 'vitest'
import { feedSecurity } from '../../../services/client/feed-security.ts'

const account = {
  KAFKA_SASL_MECHANISM: 'scram-sha-512', KAFKA_SASL_USERNAME: 'acme', KAFKA_SASL_PASSWORD: 'secret',
}

describe('the way of a feed to the brokers', () => {
  it('is open to anybody when nothing is set', () => {
    expect(feedSecurity({ KAFKA_TLS: '', KAFKA_SASL_MECHANISM: '' })).toStrictEqual({})
    expect(feedSecurity({ KAFKA_TLS: 'false' })).toStrictEqual({})
  })

  it('has TLS and an account when they are set', () => {
    expect(feedSecurity({ ...account, KAFKA_TLS: 'true' })).toStrictEqual({
      ssl: true, sasl: { mechanism: 'scram-sha-512', username: 'acme', password: 'secret' },
    })
  })

  it('is told to be incomplete or wrong', () => {
    const faultOf = (more: object) => () => feedSecurity({ ...account, ...more })
    expect(faultOf({ KAFKA_TLS: 'yes' })).toThrow('KAFKA_TLS must be true or false.')
    expect(faultOf({ KAFKA_SASL_MECHANISM: 'x' })).toThrow('must be one of plain, scram-sha-256')
    expect(faultOf({ KAFKA_SASL_USERNAME: '', KAFKA_SASL_PASSWORD: '' }))
      .toThrow('Set KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD too: ')
  })
})
