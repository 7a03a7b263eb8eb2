import { describe, expect, it } from 'vitest'
import { ConfigError } from '../../../services/platform/config.ts'
import { InfrastructureError } from '../../../services/platform/errors.ts'
import { explanationOf, UsageError } from '../../../services/platform/run-command.ts'

const refused = (address: string) =>
  Object.assign(new Error(`connect ECONNREFUSED ${address}`), { code: 'ECONNREFUSED' })
const dependency = (address: string) => `A dependency failed: connect ECONNREFUSED ${address}. ` +
  'Check the addresses in the environment; for a local stack run "npm run up".'

describe('the explanation of a failed command', () => {
  it.each([
    [new UsageError('Give --name.'), 'Give --name.'],
    [new RangeError('At most 5.'), 'At most 5.'],
    [new InfrastructureError('the wallet is locked'), 'the wallet is locked'],
    [
      new InfrastructureError('topic t could not be read', { cause: refused('127.0.0.1:1') }),
      'topic t could not be read: connect ECONNREFUSED 127.0.0.1:1',
    ],
    [new TypeError('fetch failed', { cause: refused('::1:1') }), dependency('::1:1')],
    [new AggregateError([refused('127.0.0.1:1')], ''), dependency('127.0.0.1:1')],
  ])('%s', (error, text) => {
    expect(explanationOf(error)).toBe(text)
  })

  it('says how to trust the certificate of a stack', () => {
    const cause = Object.assign(new Error('no'), { code: 'SELF_SIGNED_CERT_IN_CHAIN' })
    const error = new InfrastructureError('gone', { cause })
    expect(explanationOf(error)).toContain('NODE_EXTRA_CA_CERTS=')
  })

  it('names the invalid setting, and the alternative', () => {
    const text = explanationOf(new ConfigError(['KAFKA_BROKERS is missing']))
    expect(text).toContain('KAFKA_BROKERS is missing')
    expect(text).toContain('npm run up')
  })

  it('suggests no local stack for a setting that is invalid', () => {
    const fault = 'RESULTS_ROOT_KEYS has no key "2", which is the active one: add it'
    expect(explanationOf(new ConfigError([fault]))).toBe(`Invalid configuration:\n- ${fault}`)
  })

  it('rethrows a bug, which shows its stack', () => {
    expect(() => explanationOf(new TypeError('x is no function'))).toThrow(TypeError)
  })
})
