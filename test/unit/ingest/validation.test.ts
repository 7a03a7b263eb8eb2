import { describe, expect, it } from 'vitest'
import { ROW_FIELDS } from '../../../schemas/api/columns.ts'
import { LINE_TYPES, REASONS } from '../../../schemas/api/verdicts.ts'
import { validationError, type Mismatch } from '../../../services/ingest/validation.ts'
import { SERVICE_SLUGS } from '../../../services/topology.ts'
import { application, good, JOB_ID } from './doubles.ts'

const FIELDS = 'service, inputs, countryCode, forceFresh, webhook_url, metadata'
const SLUGS = 'phone-validation, whatsapp, telegram, carrier-single, carrier-lookup, ' +
  'email-validation'
const { post, get } = application()

describe('an invalid body gets an error that says what to do', () => {
  it.each<[body: unknown, message: string]>([
    [[], 'The body must be a JSON object in braces.'],
    [{ inputs: ['1'] }, 'service is missing. Send it.'],
    [{ ...good, service: 1 }, 'service must be a text in quotes.'],
    [{ service: 'fax', inputs: [] }, `service must be one of: ${SLUGS}.`],
    [{ ...good, inputs: [] }, 'inputs is empty. Send at least 1.'],
    [{ ...good, inputs: '+1' }, 'inputs must be a list in square brackets.'],
    [{ ...good, inputs: ['1', null] }, 'inputs[1] must be a text in quotes.'],
    [{ ...good, inputs: Array(100_001).fill('1') },
      'A job has at most 100,000 inputs. Split it into several jobs.'],
    [{ ...good, countryCode: 'XX' }, 'countryCode is not an ISO 3166 two-letter code. ' +
      'Send one, for example US, or leave it out.'],
    [{ ...good, forceFresh: 'true' }, 'forceFresh must be true or false, without quotes.'],
    [{ ...good, force_fresh: true },
      `force_fresh is not a field of this request. Leave it out; there are: ${FIELDS}.`],
    [{ ...good, metadata: [] }, 'metadata must be a JSON object in braces.'],
    [{ ...good, metadata: { 'a/b~c': 1 } }, 'metadata.a/b~c must be a text in quotes.'],
    [{ ...good, metadata: { a: 'x'.repeat(501) } },
      'metadata.a is too long. It can have at most 500 characters.'],
    [{ ...good, metadata: { ['k'.repeat(41)]: '' } },
      'metadata has a key of more than 40 characters. Shorten it.'],
    [{ ...good, metadata: Object.fromEntries(Array.from({ length: 51 }, (_, n) => [n, ''])) },
      'metadata has too many entries. Send at most 50.'],
    [{ ...good, webhook_url: `https://a.example/${'x'.repeat(2_048)}` },
      'webhook_url is too long. It can have at most 2,048 characters.'],
  ])('%.60j', async (body, message) => {
    const { app } = application({}, { bodyBudgetBytes: 40_000_000 })
    const answer = await app.inject({
      method: 'POST',
      url: '/api/v1/jobs',
      headers: { authorization: 'Bearer live', 'content-type': 'application/json' },
      payload: JSON.stringify(body),
    })
    expect([answer.statusCode, answer.json().error.message]).toEqual([400, message])
  })

  it('and for an unknown service by a list that a program can read', async () => {
    const { error } = (await post({ ...good, service: 'fax' })).json()
    expect(error).toMatchObject({
      code: 'unknown_service', param: 'service', services: SERVICE_SLUGS,
    })
  })
})

describe('an invalid query gets an error that says what to do', () => {
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
    ['/jobs?created_from=today', 'created_from must be a date like 2026-08-11, or a timestamp ' +
      'like 2026-08-11T10:00:00Z; encode the + of an offset as %2B.'],
    ['/jobs?created_to=2026-02-30', 'created_to must be a date like 2026-08-11, or a timestamp ' +
      'like 2026-08-11T10:00:00Z; encode the + of an offset as %2B.'],
    ['/jobs?created_from=2026-08-02&created_to=2026-08-01',
      'created_from must be before created_to.'],
    ['/jobs?metadata[a]=1&metadata[a]=2', 'metadata.a was sent more than once. Send it once.'],
    [`/jobs?metadata[${'k'.repeat(41)}]=1`,
      'metadata has a key of more than 40 characters. Shorten it.'],
    [`/jobs?metadata[a]=${'v'.repeat(501)}`,
      'metadata.a is too long. It can have at most 500 characters.'],
    [`/jobs?${Array.from({ length: 11 }, (_, at) => `metadata[${at}]=x`).join('&')}`,
      'metadata has too many entries. Send at most 10.'],
    ['/usage?from=yesterday', 'from must be a date like 2026-08-11, or a timestamp ' +
      'like 2026-08-11T10:00:00Z; encode the + of an offset as %2B.'],
    ['/usage?from=2026-08-01&to=2026-07-01', 'from must be before to.'],
    ['/usage?from=2030-01-01', 'from must be before "to", which is now by default.'],
    ['/usage?from=2024-01-01&to=2026-01-01', 'from must be at most 366 days before "to".'],
    ['/usage?group_by=week', 'group_by is not valid. It is: One or more of day (of the ' +
      'creation, UTC), service and key (of the request), separated by commas.'],
    ['/usage?format=xml', 'format must be one of: json, csv.'],
    ['/transactions?limit=0', 'limit must be a whole number from 1 to 100.'],
    ['/transactions?after=txn_0', 'after is not valid. It is: The next_cursor of the page ' +
      'before: only transactions older than this one.'],
    ['/transactions?type=refund',
      'type must be one of: topup, adjust, reserve, settle, void.'],
    ['/jobs?service=fax', `service must be one of: ${SLUGS}.`],
    [`/jobs/${JOB_ID}/results?format=xml`, 'format must be one of: csv, json, jsonl.'],
    [`/jobs/${JOB_ID}/results?safe=yes`, 'safe must be "spreadsheet", or be left out.'],
    [`/jobs/${JOB_ID}/results?cursor=`, 'cursor is empty. Send a text, or leave it out.'],
    [`/jobs/${JOB_ID}/results?status=vaild`,
      'status[0] must be one of: valid, invalid, risky, unknown.'],
    [`/jobs/${JOB_ID}/results?status=valid,`,
      'status[1] must be one of: valid, invalid, risky, unknown.'],
    [`/jobs/${JOB_ID}/results?source=live,catch`,
      'source[1] must be one of: live, cache, duplicate, preflight, none.'],
    [`/jobs/${JOB_ID}/results?reason=bad`, `reason[0] must be one of: ${REASONS.join(', ')}.`],
    [`/jobs/${JOB_ID}/results?line_type=`,
      `line_type[0] must be one of: ${LINE_TYPES.join(', ')}.`],
    [`/jobs/${JOB_ID}/results?country=US,UK`,
      'country[1] is not valid. It is: An ISO 3166-1 code of two letters, such as US.'],
    [`/jobs/${JOB_ID}/results?duplicates=keep`, 'duplicates must be "drop", or be left out.'],
    [`/jobs/${JOB_ID}/results?columns=row,rows`,
      `columns[1] must be one of: ${ROW_FIELDS.join(', ')}.`],
    [`/jobs/${JOB_ID}/results?columns=row,input,row`, 'columns has a value twice. Send each once.'],
    [`/jobs/${JOB_ID}/results?status=valid&status=risky`,
      'status was sent more than once. Send it once, with commas between its values.'],
  ])('%s', async (path, message) => {
    const { error } = (await get(path)).json()
    expect([error.code, error.message]).toEqual(['invalid_request', message])
    expect(message.startsWith(error.param)).toBe(true)
  })
})

describe('the answer to a mismatch', () => {
  const mismatch = (keyword: string, more: Partial<Mismatch> = {}): Mismatch =>
    ({ instancePath: '/a', keyword, params: {}, schemaPath: '', message: 'must be so', ...more })

  it('reports the first mismatch alone, and none as a request that is not valid', () => {
    const errors = [mismatch('type'), mismatch('type', { instancePath: '/b' })]
    expect(validationError(errors).param).toBe('a')
    expect(validationError([])).toEqual({ code: 'invalid_request' })
  })

  it('has words for limits that no field has today', () => {
    const messageOf = (keyword: string, more: Partial<Mismatch> = {}) =>
      validationError([mismatch(keyword, { params: { limit: 2 }, ...more })]).message
    expect(messageOf('maxItems')).toBe('a has too many items. Send at most 2.')
    expect(messageOf('minLength')).toBe('a is too short. It must have at least 2 characters.')
    expect(messageOf('multipleOf')).toBe('a is not valid.')
    expect(messageOf('type', { params: { type: 'number' } })).toBe('a must be number.')
  })

  it('keeps the codes of the body for the body', () => {
    const error = mismatch('enum', {
      instancePath: '/service', params: { allowedValues: ['x'] } as never,
    })
    expect(validationError([error]).code).toBe('unknown_service')
    expect(validationError([error], 'querystring').code).toBe('invalid_request')
  })
})
