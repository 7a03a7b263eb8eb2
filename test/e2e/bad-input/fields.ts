import { randomUUID } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { parseCsv } from '../../support/stacks/environment.ts'
import {
  ask, free, good, newCustomer, postHead, raw, refusal, service, shared,
} from './support.ts'

const invalid = (param?: string) => [400, 'invalid_request', param]
const labels = (count: number) =>
  Object.fromEntries(Array.from({ length: count }, (_, index) => [`n${index}`, 'v']))

describe('inputs', () => {
  it.each([
    ['missing', { service }], ['no list', { service, inputs: '+12127365000' }],
    ['empty', { service, inputs: [] }], ['an object', { service, inputs: { 0: '+1' } }],
    ['a number', { service, inputs: 12 }], ['null', { service, inputs: null }],
  ])('that are missing, empty or no list are 400 and named: %s', async (_what, body) => {
    expect(await refusal(body)).toEqual(invalid('inputs'))
  })

  it.each([[12], [null], [true], [['+1']]])('that are no texts are 400: %j', async input => {
    expect(await refusal({ service, inputs: ['+1', input] })).toEqual(invalid('inputs[1]'))
    expect(await refusal({ service, inputs: ['+1', { input, id: '' }] }))
      .toEqual(invalid('inputs[1].input'))
  })

  it('with an id that is no text, too long or with control characters are 400', async () => {
    const ids = [12, null, true, ['1'], {}, 'x'.repeat(129), '\u{1F600}'.repeat(129),
      'a\u0000', '\n', '\u007f', '\u0085', '\ud83d', '\ude00x']
    for (const id of ids) {
      expect([id, ...await refusal({ service, inputs: ['+1', { input: '+1', id }] })])
        .toEqual([id, ...invalid('inputs[1].id')])
    }
    const items = [[{}, 'input'], [{ id: '1' }, 'input'], [{ input: '+1' }, 'id'],
      [{ input: '+1', id: '1', ID: '2' }, 'ID'], [{ phone: '+1', id: '1' }, 'input']] as const
    for (const [item, field] of items) {
      expect(await refusal({ service, inputs: [item] })).toEqual(invalid(`inputs[0].${field}`))
    }
    const { client } = await newCustomer()
    const odd = ['\u{1F600}'.repeat(128), '  ', '=1+1', '"a", b', '\u202e', 'é e\u0301', '\ufeff',
      'constructor', '__proto__', '漢字', 'null']
    const { id } = await client.createJob({
      service, inputs: odd.map(id => ({ input: '+12127365000', id })),
    })
    await client.waitForEnd(id)
    expect((await client.resultsPage(id)).data.map(it => it['id'])).toEqual(odd)
    expect(parseCsv(await client.results(id)).map(it => it['id'])).toEqual(odd)
  })
})

describe('another field', () => {
  it('a country is taken in any case; one that is none is 400 invalid_country_code', async () => {
    const inputs = ['020 7946 0958', '+12127365000']
    for (const countryCode of ['gb', 'GB', 'gB']) {
      const { status, json } = await ask('/quotes', { body: { service, inputs, countryCode } })
      expect([status, json.preflight.freshChecks]).toEqual([200, 2])
    }
    for (const countryCode of ['USA', 'XX', '', 'ZZ', 'U', ' us', 'us ', '1', '44', 'ＵＳ',
      'UK\u0000', '\u0131t']) {
      expect([countryCode, ...await refusal({ ...good, countryCode })])
        .toEqual([countryCode, 400, 'invalid_country_code', 'countryCode'])
    }
    for (const countryCode of [null, 1, ['US'], {}]) {
      expect(await refusal({ ...good, countryCode })).toEqual(invalid('countryCode'))
    }
  })

  it('a service that is none, by case or space, is 400 unknown_service with the list', async () => {
    for (const slug of ['fax', 'Phone-Validation', 'phone-validation ', ' phone-validation', '',
      'phone_validation', 'phone-validation\u0000', '__proto__', 'constructor', 'toString',
      'x'.repeat(100_000)]) {
      const { status, code, json } = await ask('/jobs', { body: { service: slug, inputs: ['1'] } })
      expect([slug.slice(0, 30), status, code]).toEqual([slug.slice(0, 30), 400, 'unknown_service'])
      expect(json.error.services).toContain('phone-validation')
    }
    expect(await refusal({ ...good, service: 1 })).toEqual(expect.arrayContaining([400]))
  })

  it.each(['true', 1, 0, null, [], 'false', {}])('forceFresh may not be %j', async forceFresh => {
    expect(await refusal({ ...good, forceFresh })).toEqual(invalid('forceFresh'))
  })

  it('a deadline that is no whole number of seconds from a minute to two days is 400', async () => {
    for (const deadline of ['60', '6h', 0, 59, 172_801, -60, 60.5, 1e300, null, true, [60], {}]) {
      expect([deadline, ...await refusal({ ...good, deadline })])
        .toEqual([deadline, ...invalid('deadline')])
    }
    for (const deadline of ['59', '172801', '6h', '60.5', '-60', '6e1', '٦٠']) {
      const { status, code, json } = await ask(
        `/jobs?${new URLSearchParams({ service, deadline })}`,
        { body: 'phone\n+12127365000\n', headers: { 'content-type': 'text/csv' } })
      expect([deadline, status, code, json.error.param])
        .toEqual([deadline, 400, 'invalid_request', 'deadline'])
    }
  })

  it('a sample that is no boolean is 400, and is for quotes only', async () => {
    for (const sample of ['true', 1, 0, null, [], {}]) {
      const { status, code, json } = await ask('/quotes', { body: { ...good, sample } })
      expect([sample, status, code, json.error.param]).toEqual([sample, ...invalid('sample')])
    }
    for (const sample of ['1', 'yes', 'TRUE', ' true']) {
      const { status, code, json } = await ask(
        `/quotes?${new URLSearchParams({ service, sample })}`,
        { body: 'phone\n+12127365000\n', headers: { 'content-type': 'text/csv' } })
      expect([sample, status, code, json.error.param]).toEqual([sample, ...invalid('sample')])
    }
    for (const path of ['/jobs', '/verifications']) {
      const { status, code, json } = await ask(path, { body: { ...free, sample: true } })
      expect([path, status, code, json.error.param]).toEqual([path, ...invalid('sample')])
    }
  })

  it('options of no list, another service, twice, or a day to come are 400', async () => {
    const key = shared().environment.keys.test
    const dated = (date: string) => [`reassigned_number:${date}`]
    const shapes = ['line_status', 1, true, {}, [1], [null], [['line_status']]]
    const texts = ['', 'LINE_STATUS', ' line_status', 'line_status\u0000', '__proto__',
      'constructor', 'x'.repeat(100_000), 'line_status:2026-01-31', 'reassigned_number',
      'reassigned_number:', 'reassigned_number:2026-1-31', 'reassigned_number:٢٠٢٦-٠١-٣١',
      'reassigned_number:2026-01-31\n'].map(text => [text])
    const days = ['9999-12-31', '2026-02-30', '2026-13-01', '0000-00-00', '2025-02-29'].map(dated)
    const twice = [['sim_swap', 'sim_swap'], [...dated('2026-01-01'), ...dated('2026-01-02')],
      Array(1_000).fill('sim_swap')]
    for (const options of [...shapes, ...texts, ...days, ...twice]) {
      const [status, code, param] = await refusal({ ...good, options }, { key })
      expect([options, status, code, String(param).replace(/\[\d+\]$/, '')])
        .toEqual([options, ...invalid('options')])
    }
    // Without a price there is none, and other services have none.
    expect(await refusal({ ...good, options: ['sim_swap'] })).toEqual(invalid('options'))
    const mail = { service: 'email-validation', inputs: ['x'], options: ['sim_swap'] }
    expect(await refusal(mail, { key })).toEqual(invalid('options'))
    const file = async (options: string) => {
      const { status, code, json } = await ask(
        `/jobs?${new URLSearchParams({ service, options })}`,
        { key, body: 'phone\n+12127365000\n', headers: { 'content-type': 'text/csv' } })
      return [status, code, String(json.error.param).replace(/\[\d+\]$/, '')]
    }
    for (const options of [',', 'sim_swap,', 'sim_swap;line_status', 'sim_swap,sim_swap']) {
      expect([options, ...await file(options)]).toEqual([options, ...invalid('options')])
    }
  })

  it.each(['force_fresh', 'webhookUrl', 'Inputs', 'callback', 'toString', 'x'.repeat(1_000), ''])(
    'an unknown field is 400 invalid_request and named: %s', async name => {
      const param = name === '' ? undefined : name.slice(0, 100)
      expect(await refusal({ ...good, [name]: true })).toEqual(invalid(param))
    })

  it('metadata beyond 50 labels of 40 and 500 characters is 400', async () => {
    const refused: readonly (readonly [metadata: unknown, param?: string])[] = [
      [labels(51), 'metadata'], [labels(10_000)], [{ k: 'v'.repeat(501) }, 'metadata.k'],
      [{ k: 'v'.repeat(1_000_000) }, 'metadata.k'], [{ ['k'.repeat(41)]: 'v' }, 'metadata'],
      [{ k: 1 }, 'metadata.k'], [{ k: null }, 'metadata.k'], [{ k: ['v'] }, 'metadata.k'],
      [{ k: { l: 'v' } }, 'metadata.k'], [['v'], 'metadata'], ['v', 'metadata'],
      [null, 'metadata'],
    ]
    for (const [metadata, param] of refused) {
      expect(await refusal({ ...free, metadata })).toEqual(invalid(param))
    }
    const metadata = {
      ...labels(44),
      'k\u0000\n': 'v\u0000\r\n\u001b[31m',
      constructor: 'x',
      toString: 'y',
      '\u202e': '\u{1F600}é',
      '': '',
      ['k'.repeat(40)]: 'v'.repeat(500),
    }
    const { json } = await ask('/jobs', { body: { ...free, metadata } })
    expect((await ask(`/jobs/${json.id}`)).json.metadata).toEqual(metadata)
  })
})

describe('a request that waits', () => {
  it.each([-1, 26, 1.5, '5', null, true, 1e9])('is refused for %j seconds', async wait => {
    const { status, code, json } = await ask('/verifications', { body: { ...free, wait } })
    expect([status, code, json.error.param]).toEqual([400, 'invalid_request', 'wait'])
    const { status: polled } = await ask(`/jobs/job_01jd3v8zj7m5n2k4q6r8s0t1w3?wait=${wait}`)
    expect(polled).toBe(wait === '5' ? 404 : 400)
  })

  it('is refused for more than 100 inputs, for another shape, and for a large body', async () => {
    const refused = async (body: unknown) => {
      const { status, code } = await ask('/verifications', { body })
      return [status, code]
    }
    expect(await refused({ ...free, inputs: Array(101).fill('1') }))
      .toEqual([400, 'too_many_inputs'])
    for (const body of [{ ...free, inputs: [] }, { ...free, inputs: [1] }, { service }, [], null]) {
      expect(await refused(body)).toEqual([400, 'invalid_request'])
    }
    expect(await refused({ ...free, inputs: ['1'.repeat(66_000)] }))
      .toEqual([413, 'body_too_large'])
  })
})

it('an Idempotency-Key ' +
  'that is no UUID v4, or two, is 400; its case makes no difference', async () => {
  const key = randomUUID()
  const refused = [400, 'invalid_idempotency_key', 'Idempotency-Key']
  for (const wrong of ['7', '', key.slice(1), `${key}0`, `{${key}}`, key.replaceAll('-', ''),
    'null', '00000000-0000-0000-0000-000000000000', '00000000-0000-1000-8000-000000000000',
    '6ba7b810-9dad-11d1-80b4-00c04fd430c8', `${key}, ${key}`, `${key} `.padEnd(300, '0'),
    'x'.repeat(10_000)]) {
    expect(await refusal(free, { headers: { 'idempotency-key': wrong } })).toEqual(refused)
  }
  const body = JSON.stringify(free)
  const twice = await raw([postHead(`idempotency-key: ${key}`, `Idempotency-Key: ${key}`,
    `content-length: ${body.length}`), body])
  expect([twice.status, twice.code]).toEqual([400, 'invalid_idempotency_key'])
  const [lower, upper] = [
    await ask('/jobs', { body: free, headers: { 'idempotency-key': key } }),
    await ask('/jobs', { body: free, headers: { 'idempotency-key': key.toUpperCase() } }),
  ]
  expect([upper.status, upper.text]).toEqual([202, lower.text])
})
