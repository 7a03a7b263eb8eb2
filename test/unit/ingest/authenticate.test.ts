import type { FastifyRequest } from 'fastify'
import { describe, expect, it } from 'vitest'
import { authenticate, requireScopes } from '../../../services/ingest/authenticate.ts'
import { ApiException } from '../../../services/ingest/errors.ts'
import { doubles, KEY_ID } from './doubles.ts'

/** A request with these Authorization headers, as Node gives them to the framework. */
function requestWith (...headers: readonly string[]): FastifyRequest {
  const rawHeaders = headers.flatMap(header => ['Authorization', header])
  return { raw: { rawHeaders }, headers: { authorization: headers[0] } } as FastifyRequest
}

/** The secret that is looked up for a request. */
async function secretOf (request: FastifyRequest): Promise<string> {
  const calls: string[] = []
  const { findKey } = doubles()
  await authenticate(request, async secret => {
    calls.push(secret)
    return findKey('live', '192.0.2.7')
  })
  return calls.join()
}

describe('the caller of a request', () => {
  it('is the owner of its key', async () => {
    const { findKey } = doubles()
    expect(await authenticate(requestWith('Bearer test'), findKey)).toEqual({
      org: 'org_01',
      tenant: 'org_01.test',
      mode: 'test',
      scopes: ['jobs:write', 'jobs:read'],
      keyId: KEY_ID,
    })
  })

  it.each([
    [['Bearer live'], 'live'],
    [['bearer   live'], 'live'],
    [[], ''],
    [['Bearer'], 'malformed'],
    [['Bearer live', 'Bearer test'], 'malformed'],
    [[`Bearer ${'x'.repeat(249)}`], 'x'.repeat(249)],
    [[`Bearer ${'x'.repeat(250)}`], 'malformed'],
  ])('with the headers %.40j is looked up as %.20s', async (headers, secret) => {
    expect(await secretOf(requestWith(...headers))).toBe(secret)
  })

  it('gets an error with the missing scope', async () => {
    const { findKey } = doubles()
    const reader = await authenticate(requestWith('Bearer reader'), findKey)
    expect(() => requireScopes(reader, ['jobs:read'])).not.toThrow()
    const both = ['jobs:read', 'jobs:write'] as const
    expect(() => requireScopes(reader, both)).toThrow(expect.objectContaining({
      fault: {
        code: 'insufficient_scope',
        message: 'The API key lacks the scope jobs:write. Use a key that has it.',
      },
    }))
  })

  it('has the narrower scopes that its scopes include', async () => {
    const reader = await authenticate(requestWith('Bearer reader'), doubles().findKey)
    expect(() => requireScopes(reader, ['results:read', 'usage:read'])).not.toThrow()
    expect(() => requireScopes(reader, ['webhooks:write'])).toThrow(expect.objectContaining({
      fault: expect.objectContaining({
        message: 'The API key lacks the scope webhooks:write or jobs:write. Use a key that has it.',
      }),
    }))
    const narrow = { ...reader, scopes: ['usage:read'] as const }
    expect(() => requireScopes(narrow, ['usage:read'])).not.toThrow()
    expect(() => requireScopes(narrow, ['jobs:read'])).toThrow(ApiException)
    expect(() => requireScopes(narrow, ['results:read'])).toThrow(ApiException)
  })

  it('is refused from an address that its key does not allow, with that address', async () => {
    const request = Object.assign(requestWith('Bearer live'), { clientAddress: '198.51.100.9' })
    await expect(authenticate(request, async () => ({ kind: 'foreign_address' })))
      .rejects.toMatchObject({
        fault: {
          code: 'address_not_allowed',
          message: expect.stringContaining('from the address 198.51.100.9'),
        },
      })
  })

  it('is not guessed if keys cannot be read', async () => {
    const failure = new Error('redis is away')
    const asking = authenticate(requestWith('Bearer live'), () => Promise.reject(failure))
    await expect(asking).rejects.toBe(failure)
  })
})
