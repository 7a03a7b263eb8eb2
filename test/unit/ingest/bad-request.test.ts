import { describe, expect, it } from 'vitest'
import { application, good } from './doubles.ts'

type Case = readonly [what: string, body: unknown, code: string, param?: string]

const labels = (count: number, length = 1) =>
  Object.fromEntries(Array.from({ length: count }, (_, i) => [`k${i}`, 'v'.repeat(length)]))

const CASES: readonly Case[] = [
  ['no JSON', '{"service":', 'invalid_json'],
  ['an empty body', '', 'invalid_json'],
  ['NaN', '{"service":NaN}', 'invalid_json'],
  ['two values', '{} {}', 'invalid_json'],
  ['an array', [], 'invalid_request'],
  ['null', 'null', 'invalid_request'],
  ['a text', '"service"', 'invalid_request'],
  ['invalid UTF-8', Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x7d]), 'invalid_encoding'],
  ['a field twice', '{"service":"a","inputs":["1"],"service":"b"}', 'invalid_request', 'service'],
  ['a field twice, once escaped', '{"service":"a","servic\\u0065":"b"}',
    'invalid_request', 'service'],
  ['__proto__', '{"__proto__":{"a":1},"service":"a"}', 'invalid_request'],
  ['an escaped __proto__', '{"\\u005f_proto__":{"a":1},"service":"a"}', 'invalid_request'],
  ['a label __proto__', '{"service":"a","inputs":["1"],"metadata":{"__proto__":"x"}}',
    'invalid_request'],
  ['constructor.prototype', '{"constructor":{"prototype":{"a":1}}}', 'invalid_request'],
  ['deep nesting', '['.repeat(100_000) + ']'.repeat(100_000), 'invalid_request'],
  ['no service', { inputs: ['1'] }, 'invalid_request', 'service'],
  ['no inputs', { service: 'phone-validation' }, 'invalid_request', 'inputs'],
  ['an empty list', { ...good, inputs: [] }, 'invalid_request', 'inputs'],
  ['a text for inputs', { ...good, inputs: '+1' }, 'invalid_request', 'inputs'],
  ['a number for inputs', { ...good, inputs: 12 }, 'invalid_request', 'inputs'],
  ['an object for inputs', { ...good, inputs: {} }, 'invalid_request', 'inputs'],
  ['null among inputs', { ...good, inputs: ['1', null] }, 'invalid_request', 'inputs[1]'],
  ['true among inputs', { ...good, inputs: [true] }, 'invalid_request', 'inputs[0]'],
  ['a list among inputs', { ...good, inputs: ['1', '2', '3', ['4']] },
    'invalid_request', 'inputs[3]'],
  ['100,001 inputs', { ...good, inputs: Array(100_001).fill('1') }, 'too_many_inputs', 'inputs'],
  ['an unknown slug', { ...good, service: 'fax' }, 'unknown_service', 'service'],
  ['a slug in capitals', { ...good, service: 'Phone-Validation' }, 'unknown_service', 'service'],
  ['a slug with a space', { ...good, service: 'phone-validation ' }, 'unknown_service', 'service'],
  ['no provider', { ...good, service: 'whatsapp' }, 'service_not_configured', 'service'],
  ['a three-letter country', { ...good, countryCode: 'USA' },
    'invalid_country_code', 'countryCode'],
  ['country XX', { ...good, countryCode: 'XX' }, 'invalid_country_code', 'countryCode'],
  ['no country', { ...good, countryCode: '' }, 'invalid_country_code', 'countryCode'],
  ['country ZZ', { ...good, countryCode: 'ZZ' }, 'invalid_country_code', 'countryCode'],
  ['null as country', { ...good, countryCode: null }, 'invalid_request', 'countryCode'],
  ['forceFresh as text', { ...good, forceFresh: 'true' }, 'invalid_request', 'forceFresh'],
  ['forceFresh as number', { ...good, forceFresh: 1 }, 'invalid_request', 'forceFresh'],
  ['an unknown field', { ...good, force_fresh: true }, 'invalid_request', 'force_fresh'],
  ['51 labels', { ...good, metadata: labels(51) }, 'invalid_request', 'metadata'],
  ['a label of 501', { ...good, metadata: labels(1, 501) }, 'invalid_request', 'metadata.k0'],
  ['a name of 41', { ...good, metadata: { ['k'.repeat(41)]: 'v' } }, 'invalid_request', 'metadata'],
  ['a number as label', { ...good, metadata: { team: 1 } }, 'invalid_request', 'metadata.team'],
  ['a line end in a name', { ...good, metadata: { 'a\nb': 1 } },
    'invalid_request', 'metadata.a\nb'],
  ['a list of labels', { ...good, metadata: [] }, 'invalid_request', 'metadata'],
  ['http', { ...good, webhook_url: 'http://example.com/' }, 'invalid_webhook_url', 'webhook_url'],
  ['a long address', { ...good, webhook_url: `https://a.example/${'x'.repeat(2_048)}` },
    'invalid_webhook_url', 'webhook_url'],
  ['a number as address', { ...good, webhook_url: 1 }, 'invalid_request', 'webhook_url'],
]

describe('a body that can not be a job', () => {
  it.each(CASES)('%s', async (...[, body, code, param]) => {
    const { post, calls } = application({}, { bodyBudgetBytes: 40_000_000 })
    const answer = await post(body)
    const { error } = answer.json()
    expect([answer.statusCode, error.code, error.param]).toEqual([400, code, param])
    expect(error.type).toBe('invalid_request')
    expect(error.message).toMatch(/^\S.*\.$/s)
    expect(error.request_id).toBe(answer.headers['x-request-id'])
    expect(calls.submissions).toEqual([])
  })

  it('names the services there are', async () => {
    const { post } = application()
    const { error } = (await post({ ...good, service: 'fax' })).json()
    expect(error.services).toContain('email-validation')
    expect(error.message).toContain('phone-validation, whatsapp')
  })

  it('takes the largest labels the limits allow', async () => {
    const { post, calls } = application()
    const metadata = { ...labels(49, 500), ['k'.repeat(40)]: '' }
    expect((await post({ ...good, metadata })).statusCode).toBe(202)
    expect(calls.submissions[0]?.metadata).toEqual(metadata)
  })

  it('shows at most 100 characters of a field it does not know', async () => {
    const { post } = application()
    const { error } = (await post({ ...good, ['x'.repeat(9_000)]: 1 })).json()
    expect(error.param).toBe('x'.repeat(100))
  })
})

describe('a body that is not read', () => {
  it.each([
    ['text/plain'], ['application/x-www-form-urlencoded'], ['application/json; charset=utf-16'],
    ['application/jsonp'], ['nonsense'],
  ])('because of its content type %s', async type => {
    const { post } = application()
    const answer = await post(good, { headers: { 'content-type': type } })
    expect([answer.statusCode, answer.json().error.code]).toEqual([415, 'unsupported_media_type'])
  })

  it('because it has no content type', async () => {
    const { app } = application()
    const answer = await app.inject({
      method: 'POST', url: '/api/v1/jobs', headers: { authorization: 'Bearer live' },
    })
    expect([answer.statusCode, answer.json().error.code]).toEqual([415, 'unsupported_media_type'])
  })

  it('because it is too large', async () => {
    const { post } = application({}, { bodyBudgetBytes: 1e9 })
    const answer = await post(`"${'x'.repeat(34 * 1_024 * 1_024)}"`)
    expect([answer.statusCode, answer.json().error.code]).toEqual([413, 'body_too_large'])
  })

  it.each(['application/json; charset=UTF-8', 'application/json;charset="utf-8"'])(
    'unless its type is %s', async type => {
      const { post } = application()
      expect((await post(good, { headers: { 'content-type': type } })).statusCode).toBe(202)
    })
})
