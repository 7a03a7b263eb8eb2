import type { FastifyRequest } from 'fastify'
import { describe, expect, it } from 'vitest'
import { readKeyedSubmission, readSubmission } from '../../../services/ingest/read-submission.ts'
import { good, settings } from './doubles.ts'

const KEY = '7f3d2c1b-0a9e-4d8c-b7a6-5f4e3d2c1b0a'
const requestOf = (body: object) => ({
  body,
  caller: {
    org: 'org_01', tenant: 'org_01.live', mode: 'live', scopes: ['jobs:write'], keyId: 'key_1',
  },
}) as unknown as FastifyRequest

describe('what a request asks for', () => {
  it('belongs to its caller, with every default filled in', () => {
    expect(readSubmission(requestOf({ ...good, countryCode: 'us' }), settings, KEY)).toEqual({
      ...good,
      tenant: 'org_01.live',
      country: 'US',
      forceFresh: false,
      metadata: {},
      webhookUrl: '',
      idempotencyKey: KEY,
      fingerprint: expect.stringMatching(/^[0-9a-f]{32}$/),
      apiKey: 'key_1',
    })
  })

  it('is refused for an invalid key, and for a service without provider', () => {
    expect(readSubmission(requestOf(good), settings, undefined))
      .toEqual({ code: 'invalid_idempotency_key', param: 'Idempotency-Key' })
    expect(readSubmission(requestOf({ ...good, service: 'telegram' }), settings, ''))
      .toEqual({ code: 'service_not_configured', param: 'service' })
  })

  it('is one that may be sent again with the key in its header', () => {
    const keyed = (headers: object) =>
      readKeyedSubmission(Object.assign(requestOf(good), { headers }), settings)
    expect(keyed({ 'idempotency-key': KEY }))
      .toMatchObject({ tenant: 'org_01.live', idempotencyKey: KEY })
    expect(keyed({ 'idempotency-key': 'a b' }))
      .toEqual({ code: 'invalid_idempotency_key', param: 'Idempotency-Key' })
  })
})
