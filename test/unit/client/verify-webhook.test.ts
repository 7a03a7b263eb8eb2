import { describe, expect, it } from 'vitest'
import { publicKeyText } from '../../../services/webhooks/secrets.ts'
import { verifyWebhook } from '../../../services/client/verify-webhook.ts'
import { signatureHeaders } from '../../../services/webhooks/event.ts'

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

describe('a webhook receiver with a public key', () => {
  const signingKeys = [1, 2].map(byte => `whsk_${Buffer.alloc(32, byte).toString('base64')}`)
  const [publicKey = '', other = ''] = signingKeys.map(publicKeyText)
  const signed = (keys: readonly string[]) => ({
    body,
    nowMs,
    headers: signatureHeaders({ id: 'evt_1', timestamp: 1_700_000_000, body }, {
      secrets: [secret], signingKeys: keys,
    }),
  })

  it('accepts what the owner of the key signed, also during a rotation', () => {
    const request = signed(signingKeys.slice(0, 1))
    expect(verifyWebhook({ ...request, publicKey })).toEqual({ ok: true, event: { a: 'é' } })
    expect(verifyWebhook({ ...request, publicKey: [other, publicKey] }).ok).toBe(true)
    expect(verifyWebhook({ ...signed(signingKeys), publicKey: other }).ok).toBe(true)
  })

  it('rejects what others signed, changed or sent again later', () => {
    const request = { ...signed(signingKeys.slice(0, 1)), publicKey }
    const wrong = { ok: false, reason: 'wrong_signature' }
    expect(verifyWebhook({ ...request, publicKey: other })).toEqual(wrong)
    expect(verifyWebhook({ ...request, body: '{"a":"e"}' })).toEqual(wrong)
    expect(verifyWebhook({ ...signed([]), publicKey })).toEqual(wrong)
    expect(verifyWebhook({ ...request, nowMs: nowMs + 301_000 }))
      .toEqual({ ok: false, reason: 'outside_tolerance' })
    // An HMAC under the public key, which everybody knows.
    const forged = signatureHeaders({ id: 'evt_1', timestamp: 1_700_000_000, body }, {
      secrets: [publicKey.replace('whpk_', 'whsec_')], signingKeys: [],
    })
    expect(verifyWebhook({ ...request, headers: forged })).toEqual(wrong)
  })

  it('gets an error without secret and key', () => {
    expect(() => verifyWebhook(signed([]))).toThrow('needs a secret or a public key')
    expect(() => verifyWebhook({ ...signed([]), publicKey: [] })).toThrow(TypeError)
  })
})
