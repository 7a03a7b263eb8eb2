import { describe, expect, it } from 'vitest'
import { verifyWebhook } from '../../../services/client/verify-webhook.ts'

const secret = 'whsec_QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE='
const former = 'whsec_QkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkI='
const body = '{"a":"é"}'
const own = '816582f95b7f16aa1023f9f79214ec2bf16a77990082246d035f860285003aa3'
const standard = '8yC/8Zbn6csfUI8NxX+2pk0BRiQ9xXqeOMjIfJA9aBM='
const nowMs = 1_700_000_000_000
const fresh = { body, secret, nowMs }
const signedOwn = (text = `t=1700000000,v1=${own}`) =>
  ({ ...fresh, headers: { 'X-Service-Signature': text } })
const signedStandard = (text = `v1,${standard}`) => ({
  ...fresh,
  headers: {
    'webhook-id': 'evt_1', 'webhook-timestamp': '1700000000', 'webhook-signature': text,
  },
})

describe('a webhook receiver', () => {
  it('accepts both signature schemes, for text and bytes', () => {
    const taken = { ok: true, event: { a: 'é' } }
    expect(verifyWebhook(signedOwn())).toEqual(taken)
    expect(verifyWebhook(signedStandard())).toEqual(taken)
    expect(verifyWebhook({ ...signedOwn(), body: Buffer.from(body) })).toEqual(taken)
    expect(verifyWebhook({ ...signedStandard(), body: new TextEncoder().encode(body) }))
      .toEqual(taken)
  })

  it('accepts several signatures and several secrets during a rotation', () => {
    const zeros = '0'.repeat(64)
    expect(verifyWebhook(signedOwn(`t=1700000000,v1=${zeros},v1=${own}`)).ok).toBe(true)
    expect(verifyWebhook(signedStandard(`v1,AAAA v1a,BBBB v1,${standard}`)).ok).toBe(true)
    expect(verifyWebhook({ ...signedOwn(), secret: [former, secret] }).ok).toBe(true)
    expect(verifyWebhook({ ...signedStandard(), secret: [former, secret] }).ok).toBe(true)
  })

  it.each([-300, 300])('accepts a timestamp %i seconds away and none further', seconds => {
    const atMs = nowMs + seconds * 1_000
    expect(verifyWebhook({ ...signedOwn(), nowMs: atMs }).ok).toBe(true)
    const beyond = { ok: false, reason: 'outside_tolerance' }
    const further = atMs + Math.sign(seconds)
    expect(verifyWebhook({ ...signedOwn(), nowMs: further })).toEqual(beyond)
    expect(verifyWebhook({ ...signedStandard(), nowMs: further })).toEqual(beyond)
  })

  it.each([
    ['another body', { ...signedOwn(), body: '{"a":"e"}' }],
    ['another secret', { ...signedOwn(), secret: former }],
    ['another secret, standard', { ...signedStandard(), secret: former }],
    ['another time', signedOwn(`t=1700000001,v1=${own}`)],
    ['another id', {
      ...signedStandard(), headers: { ...signedStandard().headers, 'webhook-id': 'evt_2' },
    }],
    ['no signature of this version', signedOwn(`t=1700000000,v0=${own}`)],
    ['a part of the signature', signedOwn(`t=1700000000,v1=${own.slice(0, 32)}`)],
    ['an empty signature', signedOwn('t=1700000000,v1=')],
  ])('rejects %s', (_, request) => {
    expect(verifyWebhook(request)).toEqual({ ok: false, reason: 'wrong_signature' })
  })

  it.each([
    ['no headers', {}], ['no time', { 'x-service-signature': `v1=${own}` }],
    ['a time that is none', { 'x-service-signature': `t=now,v1=${own}` }],
    ['half of the standard ones', { 'webhook-id': 'evt_1', 'webhook-timestamp': '1700000000' }],
  ])('reports a missing signature for %s', (_, headers) => {
    expect(verifyWebhook({ ...fresh, headers })).toEqual({ ok: false, reason: 'missing_signature' })
  })
})
