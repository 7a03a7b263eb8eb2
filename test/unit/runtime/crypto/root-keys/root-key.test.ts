import { describe, expect, it } from 'vitest'
import {
  measureCalls, type RootKey,
} from '../../../../../services/runtime/crypto/root-keys/root-key.ts'
import { SealError } from '../../../../../services/runtime/crypto/seal.ts'
import { FatalError, InfrastructureError } from '../../../../../services/runtime/platform/errors.ts'
import { createMetrics } from '../../../../../services/runtime/platform/metrics.ts'
import { rootKeyCalls } from '../../../../support/metrics.ts'

const context = { purpose: 'webhooks', organization: 'org_1' }
const bytes = Buffer.from('bytes')

describe('calls of a root key that a provider keeps', () => {
  it('are counted and timed, and return what the provider does', async () => {
    const metrics = createMetrics()
    const root = measureCalls({
      encrypt: async plain => Buffer.concat([plain, bytes]),
      decrypt: async (_ciphertext, { organization }) => Buffer.from(organization),
    }, 'aws-kms', metrics)
    expect(String(await root.encrypt(bytes, context))).toBe('bytesbytes')
    expect(String(await root.decrypt(bytes, context))).toBe('org_1')
    await root.decrypt(bytes, { ...context, purpose: 'results' })
    expect(await rootKeyCalls(metrics)).toEqual({
      counted: {
        'webhooks aws-kms encrypt ok': 1,
        'webhooks aws-kms decrypt ok': 1,
        'results aws-kms decrypt ok': 1,
      },
      timed: { 'aws-kms encrypt': 1, 'aws-kms decrypt': 2 },
    })
  })

  it.each([
    ['failed', new InfrastructureError('denied')],
    ['invalid', new SealError('modified')],
    ['invalid', new FatalError('another key')],
  ])('are counted as %s after an error, which they pass on: %s', async (outcome, error) => {
    const metrics = createMetrics()
    const fail: RootKey['decrypt'] = async () => { throw error }
    const root = measureCalls({ encrypt: fail, decrypt: fail }, 'vault', metrics)
    await expect(root.decrypt(bytes, context)).rejects.toBe(error)
    expect(await rootKeyCalls(metrics)).toEqual({
      counted: { [`webhooks vault decrypt ${outcome}`]: 1 }, timed: { 'vault decrypt': 1 },
    })
  })
})
