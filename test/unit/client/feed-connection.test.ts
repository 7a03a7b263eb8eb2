import { describe, expect, it } from 'vitest'
import { kafkaSecurity } from '../../../services/client/feed-connection.ts'

const account = {
  KAFKA_SASL_MECHANISM: 'scram-sha-512', KAFKA_SASL_USERNAME: 'acme', KAFKA_SASL_PASSWORD: 'secret',
}

describe('the connection of a feed', () => {
  it('is unencrypted and anonymous by default', () => {
    expect(kafkaSecurity({ KAFKA_TLS: '', KAFKA_SASL_MECHANISM: '' })).toStrictEqual({})
    expect(kafkaSecurity({ KAFKA_TLS: 'false' })).toStrictEqual({})
  })

  it('uses TLS and SASL when they are set', () => {
    expect(kafkaSecurity({ ...account, KAFKA_TLS: 'true' })).toStrictEqual({
      ssl: true, sasl: { mechanism: 'scram-sha-512', username: 'acme', password: 'secret' },
    })
  })

  it('is rejected with incomplete or invalid settings', () => {
    const faultOf = (more: object) => () => kafkaSecurity({ ...account, ...more })
    expect(faultOf({ KAFKA_TLS: 'yes' })).toThrow('KAFKA_TLS is yes; it must be true or false.')
    expect(faultOf({ KAFKA_SASL_MECHANISM: 'x' })).toThrow('must be one of plain, scram-sha-256')
    expect(faultOf({ KAFKA_SASL_USERNAME: '', KAFKA_SASL_PASSWORD: '' }))
      .toThrow('KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD must be set too: ')
  })
})
