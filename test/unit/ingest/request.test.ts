import { createHmac } from 'node:crypto'
import Fastify from 'fastify'
import { Type } from 'typebox'
import { Check } from 'typebox/value'
import { describe, expect, it } from 'vitest'
import { ListJobsQuerySchema } from '../../../schemas/api/job.ts'
import { UsageQuerySchema } from '../../../schemas/api/account.ts'
import { ingestConfig, settingsOf } from '../../../services/ingest/config.ts'
import { readQueryFields, readSubmission, timeRange } from '../../../services/ingest/request.ts'
import { loadConfig } from '../../../services/runtime/platform/config.ts'
import { STAGE_ENVIRONMENT } from '../../support/stacks/stage-environment.ts'
import { good, settings } from './doubles.ts'

const requestOf = (body: object, headers: object = {}, mode = 'live') => ({
  body, headers, caller: { org: 'org_01', tenant: `org_01.${mode}`, mode, keyId: 'key_1' },
}) as unknown as Parameters<typeof readSubmission>[0]

describe('the submission of a request', () => {
  it('is refused for a service without provider, unless a test key asks', () => {
    const body = { ...good, service: 'telegram' }
    expect(readSubmission(requestOf(body), settings))
      .toEqual({ code: 'service_not_configured', param: 'service' })
    expect(readSubmission(requestOf(body, {}, 'test'), settings)).toMatchObject(body)
  })

  it('has the ids of inputs apart from them, and none without any', () => {
    const read = (inputs: readonly unknown[]) =>
      readSubmission(requestOf({ ...good, inputs }), settings)
    const long = 'x'.repeat(1_025)
    expect(read(['a', { input: 'b', id: 'é' }, { input: 'b', id: '' }, { input: long, id: 'é' }]))
      .toMatchObject({
        inputs: ['a', 'b', 'b', long.slice(1)], references: ['', 'é', '', 'é'], ids: true,
      })
    for (const inputs of [['a', 'b'], ['a', { input: 'b', id: '' }]]) {
      const submission = read(inputs)
      expect(submission).toMatchObject({ inputs: ['a', 'b'] })
      expect(submission).not.toHaveProperty('references')
      expect(submission).not.toHaveProperty('ids')
    }
  })

  it('keeps what shows that an input is too long, and no more', () => {
    const blank = ' '.repeat(2_000)
    const inputs = ['x'.repeat(1_000_000), `${blank}+12127365000${blank}`, blank,
      `${'x'.repeat(1_023)}\u{1f600}`, 'x'.repeat(1_024), '']
    expect(readSubmission(requestOf({ ...good, inputs }), settings)).toMatchObject({
      inputs: ['x'.repeat(1_024), '+12127365000', '', `${'x'.repeat(1_023)}\ufffd`,
        'x'.repeat(1_024), ''],
    })
  })
})

describe('the fingerprint of a request', () => {
  const body = { ...good, metadata: { a: '1', b: '2' } }
  const fingerprintOf = (body: object, more: object = {}) => {
    const read = readSubmission(requestOf(body), { ...settings, ...more })
    return 'code' in read ? read.code : read.fingerprint
  }
  const own = fingerprintOf(body)

  it.each<[string, object]>([
    ['service', { service: 'email-validation' }],
    ['order of inputs', { inputs: good.inputs.toReversed() }],
    ['cut between inputs', { inputs: [good.inputs.join()] }], ['country', { countryCode: 'US' }],
    ['forceFresh', { forceFresh: true }], ['labels', { metadata: { a: '1' } }],
    ['address', { webhook_url: 'https://a.example/' }], ['deadline', { deadline: 60 }],
  ])('differs by %s', (_, change) => {
    expect(fingerprintOf({ ...body, ...change })).toMatch(/^[0-9a-f]{32}$/)
    expect(fingerprintOf({ ...body, ...change })).not.toBe(own)
  })

  it('differs by the ids of inputs, and is that of strings without them', () => {
    const [first = '', ...others] = good.inputs
    const printOf = (id: string, rest: readonly unknown[] = others) =>
      fingerprintOf({ ...body, inputs: [{ input: first, id }, ...rest] })
    expect(printOf('')).toBe(own)
    const prints = [
      own, printOf('a'), printOf('b'), printOf('a', others.map(input => ({ input, id: 'a' }))),
    ]
    expect(new Set(prints).size).toBe(prints.length)
  })

  it('is half an HMAC over the inputs as one JSON text, however many they are', () => {
    const inputs = Array.from({ length: 2_001 }, (_, row) => `"${row}"`)
    const options = ['v1', good.service, '', false, '', [['a', '1'], ['b', '2']]]
    const text = JSON.stringify(options) + JSON.stringify(inputs)
    const expected = createHmac('sha256', settings.fingerprintKey).update(text).digest('hex')
    expect(fingerprintOf({ ...body, inputs })).toBe(expected.slice(0, 32))
  })

  it('depends on the oldest message key', () => {
    const secretOf = (byte: number) => Buffer.alloc(32, byte).toString('base64')
    const keyOf = (keys: object) => settingsOf(loadConfig(ingestConfig, {
      ...STAGE_ENVIRONMENT,
      CACHE_SECRET_ACTIVE: '1',
      MESSAGE_KEYS: JSON.stringify(keys),
      MESSAGE_KEY_ACTIVE: '2',
    })).fingerprintKey
    const old = keyOf({ 2: secretOf(2), 1: secretOf(1) })
    expect(keyOf({ 1: secretOf(1), 2: secretOf(3) }).equals(old)).toBe(true)
    expect(keyOf({ 2: secretOf(1) }).equals(old)).toBe(true)
    expect(keyOf({ 2: secretOf(2) }).equals(old)).toBe(false)
  })
})

describe('a sandbox input', () => {
  const refusal = (service: string, mode: string, ...inputs: readonly string[]) =>
    readSubmission(requestOf({ service, inputs }, {}, mode), settings)
  const required = (requiredMicros: number) =>
    ({ code: 'insufficient_balance', more: { requiredMicros, availableMicros: 0 } })

  it.each([
    ['phone-validation', '+15005550402'], ['phone-validation', '+1 (500) 555-0402'],
    ['phone-validation', ' 15005550402 '],
    ['email-validation', 'insufficient_balance@example.com'],
    ['email-validation', 'Insufficient_Balance+2@Example.com'],
  ])('refuses %s of %s for a test key only', (service, input) => {
    expect(refusal(service, 'test', '+12127365000', input)).toEqual(required(4_000))
    expect(refusal(service, 'live', input)).toMatchObject({ inputs: [input] })
  })

  it.each([
    ['phone-validation', ['+15005550401', '+12125550402', '15005550402'.repeat(9), '',
      'insufficient_balance@example.com']],
    ['email-validation', ['a.insufficient_balance@example.com', '+15005550402']],
  ])('is no other, and none of the other kind: %s', (service, inputs) => {
    expect(refusal(service, 'test', ...inputs)).toMatchObject({ inputs })
  })
})

describe('the fields of a query', () => {
  /** The query as it is validated. */
  async function read (query: string): Promise<unknown> {
    const app = Fastify()
    readQueryFields(app)
    app.setValidatorCompiler(() => () => true)
    const querystring = Type.Object({
      limit: Type.Integer(),
      after: Type.String(),
      columns: Type.Array(Type.String()),
      metadata: Type.Object({}),
    })
    app.get('/', { schema: { querystring } }, async ({ query }) => query)
    return (await app.inject(`/?${query}`)).json()
  }

  it.each([
    ['limit=7', 7], ['limit=0', 0], ['limit=999999999', 999_999_999], ['limit=07', '07'],
    ['limit=1e2', '1e2'], ['limit=-1', '-1'], ['limit=', ''], ['limit=1.0', '1.0'],
    ['limit=9999999999', '9999999999'], ['limit=1&limit=2', ['1', '2']],
  ])('are numbers as far as they are whole: %s', async (query, limit) => {
    expect(await read(`${query}&after=7`)).toEqual({ limit, after: '7' })
  })

  it('are lists and labels, and are left alone without a schema', async () => {
    expect(await read('columns=a,b&metadata[x]=1&metadata[__proto__]=2&metadata=3&other[x]=4'))
      .toEqual({
        columns: ['a', 'b'],
        metadata: JSON.parse('{"x":"1","__proto__":"2"}'),
        'other[x]': '4',
      })
  })
})

const range = (from?: unknown, to?: unknown) => timeRange({ from, to }, { from: 'from', to: 'to' })
const ms = (text: string) => Date.parse(text)

describe('a time range of a query', () => {
  it('includes the whole day of a date, and ends before a timestamp', () => {
    expect(range('2026-08-10', '2026-08-10'))
      .toEqual({ fromMs: ms('2026-08-10T00:00Z'), toMs: ms('2026-08-11T00:00Z') })
    expect(range('2026-08-10T01:00+01:00', '2026-08-10T00:00:00.001Z'))
      .toEqual({ fromMs: ms('2026-08-10T00:00Z'), toMs: ms('2026-08-10T00:00Z') + 1 })
    expect(range()).toEqual({})
  })

  it.each([
    '', 'now', '1754899200', '2026-8-1', '2026-13-01', '2026-08-32', '2026-08-10T',
    '2026-08-10T25:00Z', '2026-08-10T10:00', '2026-08-10 10:00Z', '2026-08-10T10:00 01:00',
    '1999-12-31', '2100-01-01', '-002026-08-10', '2026-08-10T10:00Z\n', '２０２６-08-10',
  ])('has a schema that rejects %j', text => {
    expect([Check(UsageQuerySchema, { from: text }),
      Check(ListJobsQuerySchema, { created_to: text })]).toEqual([false, false])
  })

  it.each(['2026-02-29', '2026-02-30T10:00Z'])('rejects %j, which its schema takes', text => {
    expect(Check(UsageQuerySchema, { from: text })).toBe(true)
    expect(() => range(text)).toThrow(expect.objectContaining({
      fault: expect.objectContaining({ code: 'invalid_request', param: 'from' }),
    }))
    expect(() => range(undefined, text)).toThrow()
  })

  it('rejects an end that is not after its beginning', () => {
    expect(() => range('2026-08-11', '2026-08-10')).toThrow()
    expect(() => range('2026-08-10T10:00Z', '2026-08-10T10:00Z')).toThrow()
  })
})
