import { describe, expect, it } from 'vitest'
import { LINE_TYPES } from '../../../schemas/api/verdicts.ts'
import { SERVICE_SLUGS } from '../../../services/topology.ts'
import { application, good, JOB_ID } from './doubles.ts'

const FIELDS = 'service, inputs, countryCode, forceFresh, options, deadline, webhook_url, ' +
  'metadata'
const SLUGS = 'phone-validation, whatsapp, telegram, carrier-single, carrier-lookup, ' +
  'email-validation'
const COUNTRY = 'countryCode is not an ISO 3166 two-letter code. Send one, for example US, or ' +
  'leave it out.'

type Case = readonly [what: string, body: unknown, code: string, param?: string, message?: string]

const labels = (count: number, length = 1) =>
  Object.fromEntries(Array.from({ length: count }, (_, i) => [`k${i}`, 'v'.repeat(length)]))

/** With the texts of their errors: other bodies are those of `test/e2e/bad-input/`. */
const CASES: readonly Case[] = [
  ['an array', [], 'invalid_request', undefined, 'The body must be a JSON object in braces.'],
  ['no service', { inputs: ['1'] }, 'invalid_request', 'service', 'service is missing. Send it.'],
  ['an empty list', { ...good, inputs: [] }, 'invalid_request', 'inputs',
    'inputs is empty. Send at least 1.'],
  ['a text for inputs', { ...good, inputs: '+1' }, 'invalid_request', 'inputs',
    'inputs must be a list in square brackets.'],
  ['null among inputs', { ...good, inputs: ['1', null] }, 'invalid_request', 'inputs[1]',
    'inputs[1] must be a text in quotes, or a JSON object in braces.'],
  ['an id that is a number', { ...good, inputs: ['1', { input: '1', id: 1 }] },
    'invalid_request', 'inputs[1].id', 'inputs[1].id must be a text in quotes.'],
  ['an id of 129', { ...good, inputs: [{ input: '1', id: '\u{1f600}'.repeat(129) }] },
    'invalid_request', 'inputs[0].id',
    'inputs[0].id is too long. It can have at most 128 characters.'],
  ['an id with half of a surrogate pair', { ...good, inputs: ['1', { input: '1', id: '\ud800' }] },
    'invalid_request', 'inputs[1].id',
    'inputs[1].id has half of a surrogate pair, which is no character. Remove it.'],
  ['an object without id', { ...good, inputs: [{ input: '1' }] },
    'invalid_request', 'inputs[0].id', 'inputs[0].id is missing. Send it.'],
  ['an unknown field beside an id', { ...good, inputs: ['1', { input: '1', id: '1', x: '' }] },
    'invalid_request', 'inputs[1].x', 'inputs[1].x is not a field of this request. Leave it ' +
    'out; there are: input, id.'],
  ['an object as id', { ...good, inputs: [{ input: '1', id: {} }] },
    'invalid_request', 'inputs[0].id',
    'inputs[0].id must be a plain value, not a list or an object.'],
  ['inputs of five fields', { ...good, inputs: [{ input: '1', id: '', a: 1, b: 1, c: 1 }] },
    'invalid_request', 'inputs[0]', 'The objects up to inputs[0] have more than 4 different ' +
    'fields. Leave out those that the request does not have.'],
  ['100,001 inputs', { ...good, inputs: Array(100_001).fill('1') }, 'too_many_inputs', 'inputs',
    'A job has at most 100,000 inputs. Split it into several jobs.'],
  ['an unknown slug', { ...good, service: 'fax' }, 'unknown_service', 'service',
    `service must be one of: ${SLUGS}.`],
  ['no provider', { ...good, service: 'whatsapp' }, 'service_not_configured', 'service'],
  ['country XX', { ...good, countryCode: 'XX' }, 'invalid_country_code', 'countryCode', COUNTRY],
  ['forceFresh as text', { ...good, forceFresh: 'true' }, 'invalid_request', 'forceFresh',
    'forceFresh must be true or false, without quotes.'],
  ['a deadline over two days', { ...good, deadline: 172_801 }, 'invalid_request', 'deadline',
    'deadline must be a whole number from 60 to 172,800.'],
  ['an unknown field', { ...good, force_fresh: true }, 'invalid_request', 'force_fresh',
    `force_fresh is not a field of this request. Leave it out; there are: ${FIELDS}.`],
  ['51 labels', { ...good, metadata: labels(51) }, 'invalid_request', 'metadata',
    'metadata has too many entries. Send at most 50.'],
  ['a label of 501', { ...good, metadata: labels(1, 501) }, 'invalid_request', 'metadata.k0',
    'metadata.k0 is too long. It can have at most 500 characters.'],
  ['a name of 41', { ...good, metadata: { ['k'.repeat(41)]: 'v' } }, 'invalid_request', 'metadata',
    'metadata has a key of more than 40 characters. Shorten it.'],
  ['a line end in a name', { ...good, metadata: { 'a\nb': 1 } },
    'invalid_request', 'metadata.a\nb'],
  ['a list of labels', { ...good, metadata: [] }, 'invalid_request', 'metadata',
    'metadata must be a JSON object in braces.'],
  ['a name to escape', { ...good, metadata: { 'a/b~c': 1 } }, 'invalid_request',
    'metadata.a/b~c', 'metadata.a/b~c must be a text in quotes.'],
  ['http', { ...good, webhook_url: 'http://example.com/' }, 'invalid_webhook_url', 'webhook_url'],
  ['a long address', { ...good, webhook_url: `https://a.example/${'x'.repeat(2_048)}` },
    'invalid_webhook_url', 'webhook_url',
    'webhook_url is too long. It can have at most 2,048 characters.'],
  ['a number as address', { ...good, webhook_url: 1 }, 'invalid_request', 'webhook_url'],
]

describe('a body that cannot be a job', () => {
  const { post, calls } = application({}, { bodyBudgetBytes: 40_000_000 })

  it.each(CASES)('%s', async (...[, body, code, param, message]) => {
    const answer = await post(body)
    const { error } = answer.json()
    expect([answer.statusCode, error.code, error.param]).toEqual([400, code, param])
    expect(error.type).toBe('invalid_request')
    if (message === undefined) expect(error.message).toMatch(/^\S.*\.$/s)
    else expect(error.message).toBe(message)
    expect(error.request_id).toBe(answer.headers['x-request-id'])
    expect(error.services).toEqual(code === 'unknown_service' ? SERVICE_SLUGS : undefined)
    expect(calls.submissions).toEqual([])
  })

  it.each(['application/json; charset=', 'nonsense'])(
    'is not read because of its content type %s', async type => {
      const answer = await post(good, { headers: { 'content-type': type } })
      expect([answer.statusCode, answer.json().error.code]).toEqual([415, 'unsupported_media_type'])
    })
})

describe('a body at the limits', () => {
  it('has the largest labels, or its charset in any spelling', async () => {
    const { post, calls } = application()
    const metadata = { ...labels(49, 500), ['k'.repeat(40)]: '' }
    expect((await post({ ...good, metadata })).statusCode).toBe(202)
    expect(calls.submissions[0]?.metadata).toEqual(metadata)
    for (const charset of ['=UTF-8', '="utf-8"', ' = "utf8"']) {
      const headers = { 'content-type': `application/json;charset${charset}` }
      expect((await post(good, { headers })).statusCode).toBe(202)
    }
  })
})

describe('an invalid query gets an error that says what to do', () => {
  const { get } = application()

  it.each([
    ['/jobs?limit=0', 'limit must be a whole number from 1 to 100.'],
    ['/jobs?metadata=x', 'metadata is sent with a name in brackets: metadata[name]=value.'],
    ['/jobs?limit=ten', 'limit must be a whole number from 1 to 100.'],
    ['/jobs?limit=1&limit=2', 'limit must be a whole number from 1 to 100.'],
    ['/jobs?after=a&after=b', 'after was sent more than once. Send it once.'],
    ['/jobs?after=x', 'after is not valid. It is: The next_cursor of the page before: only ' +
      'jobs older than this one.'],
    ['/jobs?state=completed',
      'state is not a parameter of this request. Leave it out; there are: limit, after, status, ' +
      'service, created_from, created_to, metadata.'],
    ['/jobs?created_from=today', 'created_from is not valid. It is: A date (UTC) like ' +
      '2026-08-11, or a timestamp like 2026-08-11T10:00:00Z, in which the + of an offset is ' +
      'encoded as %2B: only jobs created from then on.'],
    ['/jobs?created_to=2026-02-30', 'created_to is not a day of the calendar.'],
    ['/jobs?created_from=2026-08-02&created_to=2026-08-01',
      'created_from must be before created_to.'],
    ['/jobs?metadata[a]=1&metadata[a]=2', 'metadata.a was sent more than once. Send it once.'],
    [`/jobs?metadata[${'k'.repeat(41)}]=1`,
      'metadata has a key of more than 40 characters. Shorten it.'],
    [`/jobs?metadata[a]=${'v'.repeat(501)}`,
      'metadata.a is too long. It can have at most 500 characters.'],
    [`/jobs?${Array.from({ length: 11 }, (_, at) => `metadata[${at}]=x`).join('&')}`,
      'metadata has too many entries. Send at most 10.'],
    ['/usage?from=2026-08-01&to=2026-07-01', 'from must be before to.'],
    ['/usage?from=2030-01-01', 'from must be before "to", which is now by default.'],
    ['/usage?from=2024-01-01&to=2026-01-01', 'from must be at most 366 days before "to".'],
    ['/usage?group_by=week', 'group_by is not valid. It is: One or more of day (of the ' +
      'creation, UTC), service and key (of the request), separated by commas.'],
    ['/transactions?after=txn_0', 'after is not valid. It is: The next_cursor of the page ' +
      'before: only transactions older than this one.'],
    [`/jobs/${JOB_ID}/results?format=xml`,
      'format must be one of: csv, json, jsonl, xlsx, parquet.'],
    [`/jobs/${JOB_ID}/results?safe=yes`, 'safe must be "spreadsheet", or be left out.'],
    [`/jobs/${JOB_ID}/results?cursor=`, 'cursor is empty. Send a text, or leave it out.'],
    [`/jobs/${JOB_ID}/results?status=valid,`,
      'status[1] must be one of: valid, invalid, risky, unknown.'],
    [`/jobs/${JOB_ID}/results?line_type=`,
      `line_type[0] must be one of: ${LINE_TYPES.join(', ')}.`],
    [`/jobs/${JOB_ID}/results?country=US,UK`,
      'country[1] is not valid. It is: An ISO 3166-1 code of two letters, such as US.'],
    [`/jobs/${JOB_ID}/results?columns=row,input,row`, 'columns has a value twice. Send each once.'],
    [`/jobs/${JOB_ID}/results?status=valid&status=risky`,
      'status was sent more than once. Send it once, with commas between its values.'],
  ])('%s', async (path, message) => {
    const { error } = (await get(path)).json()
    expect([error.code, error.message]).toEqual(['invalid_request', message])
    expect(message.startsWith(error.param)).toBe(true)
  })
})
