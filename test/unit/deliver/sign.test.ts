import { describe, expect, it } from 'vitest'
import { signatureHeaders } from '../../../services/deliver/sign.ts'

const first = 'whsec_QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE='
const second = 'whsec_QkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkI='
const signable = { id: 'evt_1', timestamp: 1_700_000_000, body: '{"a":"é"}' }

/** Made by another program: openssl dgst -sha256 -hmac <secret>, or -macopt hexkey:<its bytes>. */
const own = [
  '816582f95b7f16aa1023f9f79214ec2bf16a77990082246d035f860285003aa3',
  'caded2d3ab007d831a3e9bb0ceae417d027c841c5515d937c98365fb0609cb66',
]
const standard = [
  '8yC/8Zbn6csfUI8NxX+2pk0BRiQ9xXqeOMjIfJA9aBM=',
  '5vGAEYMl7Jb1ggUaMNWtOvYR2LYAN37jKwrmQpHpaps=',
]

describe('the signature of a webhook', () => {
  it('is an HMAC over time and body in two schemes', () => {
    expect(signatureHeaders(signable, [first])).toEqual({
      'x-service-signature': `t=1700000000,v1=${own[0]}`,
      'webhook-id': 'evt_1',
      'webhook-timestamp': '1700000000',
      'webhook-signature': `v1,${standard[0]}`,
    })
  })

  it('is there once for each active secret', () => {
    expect(signatureHeaders(signable, [second, first])).toMatchObject({
      'x-service-signature': `t=1700000000,v1=${own[1]},v1=${own[0]}`,
      'webhook-signature': `v1,${standard[1]} v1,${standard[0]}`,
    })
  })
})
