import { describe, expect, it } from 'vitest'
import { verifyWebhook, type WebhookRequest } from '../../../services/client/verify-webhook.ts'
import { signatureHeaders } from '../../../services/webhooks/event.ts'
import { publicKeyText } from '../../../services/webhooks/secrets.ts'

const secret = 'whsec_QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE='
const former = 'whsec_QkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkI='
const body = '{"a":"é"}'
const hex = '816582f95b7f16aa1023f9f79214ec2bf16a77990082246d035f860285003aa3'
const base64 = '8yC/8Zbn6csfUI8NxX+2pk0BRiQ9xXqeOMjIfJA9aBM='
const nowMs = 1_700_000_000_000
const zeros = '0'.repeat(64)

/** A request with the header of the service. */
const service = (text = `t=1700000000,v1=${hex}`, change: object = {}): WebhookRequest =>
  ({ body, secret, nowMs, headers: { 'X-Service-Signature': text }, ...change })
/** A request with the headers of Standard Webhooks. */
const standard = (text = `v1,${base64}`, change: object = {}, id = 'evt_1'): WebhookRequest => ({
  body,
  secret,
  nowMs,
  headers: { 'webhook-id': id, 'webhook-timestamp': '1700000000', 'webhook-signature': text },
  ...change,
})
const accepted = { ok: true, event: { a: 'é' } }
const rejected = (reason: string) => ({ ok: false, reason })

describe('a webhook receiver', () => {
  it('accepts both signature schemes, for text and bytes', () => {
    for (const sent of [service(), standard()]) {
      for (const bytes of [body, Buffer.from(body), new TextEncoder().encode(body)]) {
        expect(verifyWebhook({ ...sent, body: bytes })).toEqual(accepted)
      }
    }
  })

  it.each([
    ['signatures', service(`t=1700000000,v1=${zeros},v1=${hex}`)],
    ['standard signatures', standard(`v1,AAAA v1a,BBBB v1,${base64}`)],
    ['secrets', service(undefined, { secret: [former, secret] })],
    ['secrets, standard', standard(undefined, { secret: [former, secret] })],
  ])('accepts several %s during a rotation', (_, request) => {
    expect(verifyWebhook(request)).toEqual(accepted)
  })

  it.each([-300, 300])('accepts a timestamp %i seconds away and none further', seconds => {
    const atMs = nowMs + seconds * 1_000
    const further = { nowMs: atMs + Math.sign(seconds) }
    for (const sent of [service, standard]) {
      expect(verifyWebhook(sent(undefined, { nowMs: atMs }))).toEqual(accepted)
      expect(verifyWebhook(sent(undefined, further))).toEqual(rejected('outside_tolerance'))
    }
  })

  it.each([
    ['another body', service(undefined, { body: '{"a":"e"}' })],
    ['another secret', service(undefined, { secret: former })],
    ['another secret, standard', standard(undefined, { secret: former })],
    ['another time', service(`t=1700000001,v1=${hex}`)],
    ['another id', standard(undefined, {}, 'evt_2')],
    ['no signature of this version', service(`t=1700000000,v0=${hex}`)],
    ['a part of the signature', service(`t=1700000000,v1=${hex.slice(0, 32)}`)],
    ['an empty signature', service('t=1700000000,v1=')],
  ])('rejects %s', (_, request) => {
    expect(verifyWebhook(request)).toEqual(rejected('wrong_signature'))
  })

  it.each([
    ['no headers', {}], ['no time', { 'x-service-signature': `v1=${hex}` }],
    ['a time that is none', { 'x-service-signature': `t=now,v1=${hex}` }],
    ['half of the standard ones', { 'webhook-id': 'evt_1', 'webhook-timestamp': '1700000000' }],
  ])('reports a missing signature for %s', (_, headers) => {
    expect(verifyWebhook({ body, secret, nowMs, headers })).toEqual(rejected('missing_signature'))
  })
})

describe('a webhook receiver with a public key', () => {
  const signingKeys = [1, 2].map(byte => `whsk_${Buffer.alloc(32, byte).toString('base64')}`)
  const [publicKey = '', other = ''] = signingKeys.map(publicKeyText)
  const sign = (keys: readonly string[], secrets = [secret]) => signatureHeaders(
    { id: 'evt_1', timestamp: 1_700_000_000, body }, { secrets, signingKeys: keys })
  const headers = sign(signingKeys.slice(0, 1))
  const request = { body, nowMs, headers, publicKey }
  /** An HMAC under the public key, which everybody knows. */
  const forged = sign([], [publicKey.replace('whpk_', 'whsec_')])

  it.each<[what: string, change: object, outcome: object]>([
    ['what the owner signed', {}, accepted],
    ['what the owner signed, by one of two keys', { publicKey: [other, publicKey] }, accepted],
    ['what was signed by two keys', { headers: sign(signingKeys), publicKey: other }, accepted],
    ['what another one signed', { publicKey: other }, rejected('wrong_signature')],
    ['what was changed', { body: '{"a":"e"}' }, rejected('wrong_signature')],
    ['what no key signed', { headers: sign([]) }, rejected('wrong_signature')],
    ['what was signed by the public key', { headers: forged }, rejected('wrong_signature')],
    ['what is sent again', { nowMs: nowMs + 301_000 }, rejected('outside_tolerance')],
  ])('takes %s for what it is', (_, change, outcome) => {
    expect(verifyWebhook({ ...request, ...change })).toEqual(outcome)
  })

  it('gets an error without secret and key', () => {
    expect(() => verifyWebhook({ body, nowMs, headers })).toThrow('needs a secret or a public key')
    expect(() => verifyWebhook({ ...request, publicKey: [] })).toThrow(TypeError)
  })
})
