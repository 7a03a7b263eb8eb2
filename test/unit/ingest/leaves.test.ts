import { Readable } from 'node:stream'
import { gunzipSync, zstdDecompressSync } from 'node:zlib'
import { createHmac } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { errorBody, type ErrorCode, ERRORS, statusOf } from '../../../services/ingest/errors.ts'
import {
  fingerprintKeyOf, fingerprintOf, type JobRequest,
} from '../../../services/ingest/request.ts'
import {
  accepts, codingFor, compressed, createCompressor,
} from '../../../services/ingest/negotiation.ts'
import { weightOfCoding } from '../../../services/runtime/platform/documents.ts'
import { jobBody } from '../../../services/jobs/job-view.ts'
import { closedJob, jobOf } from './doubles.ts'

const request: JobRequest = {
  service: 'phone-validation',
  inputs: ['1', '2'],
  country: '',
  forceFresh: false,
  metadata: { a: '1', b: '2' },
  webhookUrl: '',
}
const secretOf = (byte: number) => Buffer.alloc(32, byte).toString('base64')
const ring = { k2: secretOf(2), k1: secretOf(1) }

describe('the fingerprint of a request', () => {
  const key = fingerprintKeyOf(ring)
  const own = fingerprintOf(request, key)

  it('is half an HMAC-SHA256 in hex, the same whatever the order of labels', () => {
    expect(own).toMatch(/^[0-9a-f]{32}$/)
    expect(fingerprintOf({ ...request, metadata: { b: '2', a: '1' } }, key)).toBe(own)
  })

  it.each<[string, Partial<JobRequest>]>([
    ['service', { service: 'whatsapp' }], ['order of inputs', { inputs: ['2', '1'] }],
    ['cut between inputs', { inputs: ['1,2'] }], ['country', { country: 'US' }],
    ['forceFresh', { forceFresh: true }], ['labels', { metadata: { a: '1' } }],
    ['address', { webhookUrl: 'https://a.example/' }],
  ])('differs by %s', (_, change) => {
    expect(fingerprintOf({ ...request, ...change }, key)).not.toBe(own)
  })

  it('is over the inputs as one JSON text, however many they are', () => {
    const inputs = Array.from({ length: 2_001 }, (_, row) => `"${row}"`)
    const options = ['v1', request.service, '', false, '', [['a', '1'], ['b', '2']]]
    const text = JSON.stringify(options) + JSON.stringify(inputs)
    const expected = createHmac('sha256', key).update(text).digest('hex')
    expect(fingerprintOf({ ...request, inputs }, key)).toBe(expected.slice(0, 32))
  })

  it('depends on the oldest message key', () => {
    const of = (keys: Readonly<Record<string, string>>) =>
      fingerprintOf(request, fingerprintKeyOf(keys))
    expect(of({ k1: ring.k1, k3: ring.k2 })).toBe(own)
    expect(of({ k1: ring.k2 })).not.toBe(own)
  })
})

describe('negotiation', () => {
  it('prefers what is said most exactly', () => {
    expect(accepts('text/*;q=0, text/csv', 'text/csv')).toBe(true)
    expect(accepts('*/*, text/csv;q=0', 'text/csv')).toBe(false)
    expect(accepts('TEXT/CSV; header=present; q=0.5', 'text/csv')).toBe(true)
    expect(accepts(undefined, 'text/csv')).toBe(true)
  })

  it('compresses only for who asks', () => {
    const headers = [
      'gzip', 'x-gzip', '*', 'gzip;q=0.0', 'br', undefined, '*;q=0', 'identity, *;q=0.5',
    ]
    expect(headers.map(codingFor))
      .toEqual(['gzip', 'gzip', 'gzip', undefined, undefined, undefined, undefined, 'gzip'])
    expect([weightOfCoding('*;q=0.5', 'br', true), weightOfCoding('*', 'br', false)])
      .toEqual([0.5, 0])
  })

  it('compresses as is liked most, by zstd if it is named and liked as much', () => {
    const headers = [
      'gzip, deflate, br, zstd', 'zstd', 'zstd;q=0.5, gzip', 'zstd;q=0, gzip;q=0.1', 'zstd, *',
    ]
    expect(headers.map(codingFor)).toEqual(['zstd', 'zstd', 'gzip', 'gzip', 'zstd'])
  })

  it('compresses in one go as in pieces', async () => {
    const text = 'row,input\r\n'.repeat(1_000)
    for (const [coding, open] of [['gzip', gunzipSync], ['zstd', zstdDecompressSync]] as const) {
      const pieces = await Readable.from([text]).pipe(createCompressor(coding)).toArray()
      for (const bytes of [Buffer.concat(pieces), await compressed(coding, text)]) {
        expect(bytes.length).toBeLessThan(500)
        expect(open(bytes).toString()).toBe(text)
      }
    }
  })
})

describe('the table of errors', () => {
  it.each(Object.keys(ERRORS) as ErrorCode[])('says what to do about %s', code => {
    const { error } = errorBody({ code }, 'req_1')
    expect(statusOf(code)).toBeGreaterThanOrEqual(400)
    expect(error.message).toMatch(/^[A-Z].*\.$|^(countryCode|webhook_url) .*\.$/)
    expect(Object.keys(error)).toEqual(['type', 'code', 'message', 'request_id'])
  })
})

describe('the progress a job shows', () => {
  it('keeps the last percent for the end', () => {
    const counts = { ...jobOf().counts, finishedRows: 10 }
    const header = { metadata: {}, webhookUrl: '' }
    expect(jobBody(jobOf({ counts }), header).progressPercent).toBe(99)
    expect(jobBody(closedJob({ counts }), header).progressPercent).toBe(100)
  })
})
