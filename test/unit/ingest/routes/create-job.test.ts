import { createHmac, createSecretKey, type KeyObject } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { ingestConfig, toSettings } from '../../../../services/ingest/config.ts'
import type { Refusal } from '../../../../services/jobs/job.ts'
import { loadConfig } from '../../../../services/runtime/platform/config.ts'
import { STAGE_ENVIRONMENT } from '../../../support/stacks/stage-environment.ts'
import { application, good, outage, settings } from '../doubles.ts'

const api = application({}, {
  bodyBudgetBytes: 1e9,
  optionPrices: { sim_swap: 1 },
  providers: { 'phone-validation': ['http:vendor'] },
})

/** The submission of a request, or its error. */
async function read (body: object, key = 'live') {
  const { statusCode, json } = await api.post(body, { key })
  const submission = api.calls.submissions.pop()
  expect(submission !== undefined).toBe(statusCode === 202)
  return submission ?? json().error
}

describe('the submission of a request', () => {
  it('is refused for a service without provider, unless a test key asks', async () => {
    const body = { ...good, service: 'telegram' }
    expect(await read(body)).toMatchObject({ code: 'service_not_configured', param: 'service' })
    expect(await read(body, 'test')).toMatchObject(body)
  })

  it('is refused with an address of webhooks that is not public', async () => {
    for (const url of ['https://10.0.0.1/', 'https://[::ffff:127.0.0.1]/', 'http://a.example/']) {
      expect(await read({ ...good, webhook_url: url }))
        .toMatchObject({ code: 'invalid_webhook_url', param: 'webhook_url' })
    }
  })

  it('has the ids of inputs apart from them, and none without any', async () => {
    const long = 'x'.repeat(1_025)
    const inputs = ['a', { input: 'b', id: 'é' }, { input: 'b', id: '' }, { input: long, id: 'é' }]
    expect(await read({ ...good, inputs })).toMatchObject({
      inputs: ['a', 'b', 'b', long.slice(1)], references: ['', 'é', '', 'é'], ids: true,
    })
    for (const inputs of [['a', 'b'], ['a', { input: 'b', id: '' }]]) {
      const submission = await read({ ...good, inputs })
      expect(submission).toMatchObject({ inputs: ['a', 'b'] })
      expect(submission).not.toHaveProperty('references')
      expect(submission).not.toHaveProperty('ids')
    }
  })

  it('keeps of an input that is too long the first characters behind white space', async () => {
    const blank = ' '.repeat(2_000)
    const inputs = ['x'.repeat(1_000_000), `${blank}+12127365000${blank}`, blank,
      `${'x'.repeat(1_023)}\u{1f600}`, 'x'.repeat(1_024), '']
    expect(await read({ ...good, inputs })).toMatchObject({
      inputs: ['x'.repeat(1_024), '+12127365000', '', `${'x'.repeat(1_023)}\ufffd`,
        'x'.repeat(1_024), ''],
    })
  })
})

describe('the fingerprint of a request', () => {
  const body = { ...good, metadata: { a: '1', b: '2' } }
  const fingerprint = async (more: object = {}) =>
    (await read({ ...body, ...more })).fingerprint as string

  it.each<[string, object]>([
    ['service', { service: 'email-validation' }],
    ['order of inputs', { inputs: good.inputs.toReversed() }],
    ['cut between inputs', { inputs: [good.inputs.join()] }], ['country', { countryCode: 'US' }],
    ['forceFresh', { forceFresh: true }], ['labels', { metadata: { a: '1' } }],
    ['address', { webhook_url: 'https://a.example/' }], ['deadline', { deadline: 60 }],
    ['options', { options: ['sim_swap'] }],
  ])('differs by %s', async (_, change) => {
    expect(await fingerprint(change)).toMatch(/^[0-9a-f]{32}$/)
    expect(await fingerprint(change)).not.toBe(await fingerprint())
  })

  it('differs by the ids of inputs, and is that of strings without them', async () => {
    const [first = '', ...others] = good.inputs
    const withId = (id: string, rest: readonly unknown[] = others) =>
      fingerprint({ inputs: [{ input: first, id }, ...rest] })
    const plain = await fingerprint()
    expect(await withId('')).toBe(plain)
    const all = [
      plain, await withId('a'), await withId('b'),
      await withId('a', others.map(input => ({ input, id: 'a' }))),
    ]
    expect(new Set(all).size).toBe(all.length)
  })

  it('is half an HMAC over the inputs as one JSON text, however many they are', async () => {
    const inputs = Array.from({ length: 2_001 }, (_, row) => `"${row}"`)
    const options = ['v1', good.service, '', false, '', [['a', '1'], ['b', '2']]]
    const text = JSON.stringify(options) + JSON.stringify(inputs)
    const expected = createHmac('sha256', settings.fingerprintKeys[0]!).update(text).digest('hex')
    expect(await fingerprint({ inputs })).toBe(expected.slice(0, 32))
  })

  it('is by the active message key first, and by all others wherever their ids sort', () => {
    const secretOf = (byte: number) => Buffer.alloc(32, byte).toString('base64')
    const keysOf = (active: string, ...bytes: readonly number[]) =>
      toSettings(loadConfig(ingestConfig, {
        ...STAGE_ENVIRONMENT,
        CACHE_SECRET_ACTIVE: '1',
        MESSAGE_KEYS: JSON.stringify(Object.fromEntries(bytes.map(byte => [byte, secretOf(byte)]))),
        MESSAGE_KEY_ACTIVE: active,
      })).fingerprintKeys.map(key => key.export().toString('hex'))
    const [nine] = keysOf('9', 9)
    const [ten] = keysOf('10', 10)
    expect(ten).not.toBe(nine)
    expect(keysOf('9', 9, 10)).toEqual([nine, ten])
    expect(keysOf('10', 9, 10)).toEqual([ten, nine])
  })

  it('is computed by each message key', async () => {
    const [first, second] = [7, 8].map(byte => createSecretKey(Buffer.alloc(32, byte)))
    const submitted = async (...fingerprintKeys: KeyObject[]) => {
      const { calls, post } = application({}, { fingerprintKeys })
      await post(good)
      return calls.submissions[0]
    }
    const rotated = await submitted(second!, first!)
    expect(rotated).toMatchObject({
      fingerprint: (await submitted(second!))?.fingerprint,
      otherFingerprints: [(await submitted(first!))?.fingerprint],
    })
    expect(rotated?.otherFingerprints).not.toContain(rotated?.fingerprint)
  })
})

describe('a sandbox input', () => {
  it.each([
    ['phone-validation', '+15005550402'], ['phone-validation', '+1 (500) 555-0402'],
    ['phone-validation', ' 15005550402 '],
    ['email-validation', 'insufficient_balance@example.com'],
    ['email-validation', 'Insufficient_Balance+2@Example.com'],
  ])('refuses %s of %s for a test key only', async (service, input) => {
    expect(await read({ service, inputs: ['+12127365000', input] }, 'test')).toMatchObject(
      { code: 'insufficient_balance', requiredMicros: 4_000, availableMicros: 0 })
    expect(await read({ service, inputs: [input] })).toMatchObject({ inputs: [input] })
  })

  it.each([
    ['phone-validation', ['+15005550401', '+12125550402', '15005550402'.repeat(9), '',
      'insufficient_balance@example.com']],
    ['email-validation', ['a.insufficient_balance@example.com', '+15005550402']],
  ])('is no other, and none of the other kind: %s', async (service, inputs) => {
    expect(await read({ service, inputs }, 'test')).toMatchObject({ inputs })
  })
})

describe('a job that is not accepted', () => {
  const refused = async (refusal: Refusal) => {
    const { post } = application({ submit: async () => ({ kind: 'refused', refusal }) })
    return post(good)
  }

  it.each([
    [429, 'concurrent_jobs_limit', 'concurrent_jobs_limit'],
    [503, 'wallet_unavailable', 'frozen'],
    [503, 'temporarily_unavailable', 'expired'],
    [503, 'temporarily_unavailable', 'internal'],
  ] as const)('is answered with %i %s when the refusal is %s', async (status, code, refusal) => {
    const answer = await refused({ code: refusal })
    expect([answer.statusCode, answer.json().error.code]).toEqual([status, code])
    expect(answer.headers['retry-after']).toBe('5')
  })

  it('because infrastructure is away says that the outcome is not known', async () => {
    const { post } = application({ submit: () => Promise.reject(outage) })
    const answer = await post(good)
    expect([answer.statusCode, answer.json().error.code]).toEqual([503, 'temporarily_unavailable'])
    expect(answer.json().error.message).toContain('same Idempotency-Key')
    expect(Number(answer.headers['retry-after'])).toBeGreaterThanOrEqual(1)
  })
})
