import { describe, expect, it } from 'vitest'
import { PROVIDER_FAILURES, ProviderError } from '../../../services/verify/provider.ts'

describe('ProviderError', () => {
  it('contains the failure code and nothing else', () => {
    const error = new ProviderError('rate_limited', 1_500)
    expect(error).toMatchObject({
      name: 'ProviderError',
      message: 'provider failed: rate_limited',
      failure: 'rate_limited',
      retryAfterMs: 1_500,
    })
    expect(new ProviderError('auth').retryAfterMs).toBeUndefined()
  })

  it('has a closed set of failures', () => {
    expect(PROVIDER_FAILURES).toEqual([
      'timeout', 'rate_limited', 'unavailable', 'rejected_input', 'auth', 'bad_response',
    ])
  })
})
