import { createPublicKey, verify } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { API_VERSION } from '../../../schemas/api/root.ts'
import { publicKeyText, secretBytes } from '../../../services/webhooks/secrets.ts'
import { eventOf, signatureHeaders, eventIdOf } from '../../../services/webhooks/event.ts'
import { jobBody } from '../../../services/jobs/job-view.ts'
import { DELIVERED_JOB, endedJob } from '../../support/webhooks/deliveries.ts'

const header = { metadata: { a: '1' }, webhookUrl: 'https://hidden.example/path?token=1' }

const completed = { id: eventIdOf(DELIVERED_JOB, 'job.completed'), type: 'job.completed' } as const

describe('a webhook event', () => {
  it('has the job resource, the API version and the end time of the job', () => {
    expect(eventOf(endedJob(), completed, header)).toEqual({
      id: eventIdOf(DELIVERED_JOB, 'job.completed'),
      type: 'job.completed',
      api_version: API_VERSION,
      livemode: true,
      timestamp: '2026-08-11T10:00:02.500Z',
      data: jobBody(endedJob(), header),
    })
  })

  it('is small, always the same, and shows neither the address nor the price of a row', () => {
    const text = JSON.stringify(eventOf(endedJob(), completed, header))
    expect(JSON.stringify(eventOf(endedJob(), completed, header))).toBe(text)
    expect(text.length).toBeLessThan(1_000)
    expect(text).not.toMatch(/hidden|unitPrice/)
  })
})

describe('an event before the end', () => {
  const job = endedJob({ lowBalance: { thresholdMicros: 5_000, availableMicros: 4_000 } })

  it('of acceptance shows the job as it was accepted, whatever has happened since', () => {
    const accepted = { id: 'evt_1', type: 'job.accepted' } as const
    const body = eventOf(job, accepted, header)
    expect(body).toMatchObject({
      id: 'evt_1',
      type: 'job.accepted',
      timestamp: new Date(job.createdAtMs).toISOString(),
      data: {
        status: 'queued',
        progressPercent: 0,
        chargedMicros: 0,
        successRecords: 0,
        pendingRecords: job.preflight.totalRows,
        completedAt: null,
        maxQuoteMicros: job.preflight.maxQuoteMicros,
        metadata: { a: '1' },
      },
    })
    expect(eventOf({ ...job, closed: false, ended: false }, accepted, header)).toEqual(body)
  })

  it('of a low balance names threshold, balance and job, and nothing else', () => {
    expect(eventOf(job, { id: 'evt_1', type: 'balance.low' }, header).data).toEqual({
      thresholdMicros: 5_000, availableMicros: 4_000, currency: 'USD', jobId: DELIVERED_JOB,
    })
    expect(() => eventOf(endedJob(), { id: 'evt_1', type: 'balance.low' }, header))
      .toThrow('below no threshold')
  })
})

const first = 'whsec_QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE='
const second = 'whsec_QkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkI='
const signable = { id: 'evt_1', timestamp: 1_700_000_000, body: '{"a":"é"}' }

/** Computed by openssl: openssl dgst -sha256 -hmac <secret>, or -macopt hexkey:<its bytes>. */
const own = [
  '816582f95b7f16aa1023f9f79214ec2bf16a77990082246d035f860285003aa3',
  'caded2d3ab007d831a3e9bb0ceae417d027c841c5515d937c98365fb0609cb66',
]
const standard = [
  '8yC/8Zbn6csfUI8NxX+2pk0BRiQ9xXqeOMjIfJA9aBM=',
  '5vGAEYMl7Jb1ggUaMNWtOvYR2LYAN37jKwrmQpHpaps=',
]

describe('the signature of a webhook event', () => {
  it('is an HMAC over time and body in two schemes, once per active secret', () => {
    expect(signatureHeaders(signable, { secrets: [second, first], signingKeys: [] })).toEqual({
      'x-service-signature': `t=1700000000,v1=${own[1]},v1=${own[0]}`,
      'webhook-id': 'evt_1',
      'webhook-timestamp': '1700000000',
      'webhook-signature': `v1,${standard[1]} v1,${standard[0]}`,
    })
  })

  it('is also an Ed25519 signature per signing key, which openssl verifies', () => {
    const signingKeys = [1, 2].map(byte => `whsk_${Buffer.alloc(32, byte).toString('base64')}`)
    const publicKeys = signingKeys.map(publicKeyText)
    const { 'webhook-signature': text = '' } =
      signatureHeaders(signable, { secrets: [first], signingKeys })
    const [hmac, ...signatures] = text.split(' ')
    expect(hmac).toBe(`v1,${standard[0]}`)
    const content = Buffer.from(`evt_1.1700000000.${signable.body}`)
    for (const [index, signature] of signatures.entries()) {
      const [version = '', bytes = ''] = signature.split(',')
      expect(version).toBe('v1a')
      // RFC 8410: a public key in DER, before its 32 bytes.
      const key = createPublicKey({
        key: Buffer.concat([
          Buffer.from('302a300506032b6570032100', 'hex'), secretBytes(publicKeys[index] ?? ''),
        ]),
        format: 'der',
        type: 'spki',
      })
      expect(verify(null, content, key, Buffer.from(bytes, 'base64'))).toBe(true)
      expect(verify(null, Buffer.from('other'), key, Buffer.from(bytes, 'base64'))).toBe(false)
    }
    expect(signatures).toHaveLength(2)
  })
})
