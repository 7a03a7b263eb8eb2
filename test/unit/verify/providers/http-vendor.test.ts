import { describe, expect, it } from 'vitest'
import {
  readHttpProviders, VENDOR_COLUMNS, listVendorWords,
} from '../../../../services/verify/providers/http-vendor.ts'
import { batchDescription, singleDescription } from '../../../support/vendors/vendor.ts'

const batch = batchDescription('https://api.example')
const { response } = batch
const faultsOf = (more: object) => readHttpProviders([{ ...batch, ...more }]).faults
  .map((fault) => fault.replace('vendor 1: ', ''))

describe('a vendor description that matches the schema', () => {
  it('has no fault without contradictions, and is read unchanged', () => {
    expect(faultsOf({ url: 'http://localhost:8080/batch' })).toEqual([])
    const described = [batch, singleDescription('https://api.example')]
    expect(readHttpProviders(described)).toEqual({ providers: described, faults: [] })
    expect(faultsOf({ ...task, batch: { ...task.batch, idempotent: true } })).toEqual([])
  })

  it.each([
    ['an invalid URL', { url: 'api' }, ['url is not valid; write https://host/path']],
    ['contacts without TLS', { url: 'http://api.example/' }, [
      'url must begin with https://, because calls contain contacts',
    ]],
    ['a password in the URL', { url: 'https://a:b@api.example/' }, [
      'url must not contain a user or password; use auth of the kind basic',
    ]],
    ['unknown placeholder', { request: { body: ['{rows}'], row: { n: '{contact}{nr}{row}' } } }, [
      'request has the unknown placeholder {nr}; use {contact}, {digits}, {contacts}, {lines}, ' +
        '{row}, {rowNumber}, {rows}, {service}, {reference}, {task}, {since}',
    ]],
    ['an option without an answer', { options: { sim_swap: { query: { a: 'b' } } } }, [
      'options has sim_swap, which response.fields does not fill',
    ]],
    ['a request without a contact', { request: { body: {} } }, [
      'request must send the contact; use {contact}, {digits}, {contacts} or {lines}',
      'response.match needs request to send {row} or {rowNumber}',
    ]],
    ['one contact for many rows', { request: { query: { a: '{contact}', b: '{row}' } } }, [
      'request sends one row with {contact}, {row}, but maxRows is greater than 1',
    ]],
    ['a GET request with a body', { method: 'GET' }, ['request.body needs the method POST or PUT']],
    ['no row template', { request: { query: { a: '{contacts}' }, body: { row: '{rows}' } } }, [
      'request.row describes what {rows} in request.body lists; give both or none',
      'response.match needs request to send {row} or {rowNumber}',
    ]],
    ['rows without a match', { response: { ...response, match: undefined } }, [
      'response.match must name how answers are matched to rows',
      'response.rows needs response.match',
    ]],
    ['an empty match', { response: { ...response, match: {} } }, [
      'response.match must name row, contact or key',
    ]],
    ['several rows without a pointer', { response: { ...response, rows: undefined } }, [
      'response.rows must point at the rows of an answer',
    ]],
    ['a missing column of the service', { response: { ...response, fields: {} } }, [
      'response.fields must fill the column whatsapp of that service',
      'response.fields must fill the column telegram of that service',
    ]],
    ['a column of another service', {
      response: { ...response, fields: { ...response.fields, mcc: { pointer: '/mcc' } } },
    }, ['response.fields has mcc, which the results of its services do not have']],
    ['values that a column does not have', {
      response: {
        ...response,
        fields: { ...response.fields, line_type: { pointer: '', values: { a: 'cell' } } },
      },
    }, ['response.fields.line_type has values that are not valid there']],
    ['a number that is not registered as valid', {
      response: {
        ...response,
        verdict: { pointer: '', values: { no: { status: 'valid', reason: 'not_registered' } } },
      },
    }, [
      'response.verdict.values has the reason not_registered with the status valid; use the ' +
        'status invalid',
    ]],
    ['a word for an unlisted service', { request: { ...batch.request, services: { fax: 'f' } } }, [
      'request.services has fax, which is not in services',
    ]],
    ['an invalid status', { errors: { statuses: { 4: 'auth', '5xx': 'unavailable' } } }, [
      'errors.statuses has 4; use a status such as 429 or 5xx for one of timeout, ' +
        'rate_limited, unavailable, rejected_input, auth, bad_response',
    ]],
  ])('refuses %s', (_, more, faults) => {
    expect(faultsOf(more)).toEqual(faults)
  })

  it('reports unknown columns with the known ones', () => {
    const fields = { ...response.fields, e164: { pointer: '/e164' }, constructor: { pointer: '' } }
    const columns = Object.keys(VENDOR_COLUMNS).join(', ')
    expect(faultsOf({ response: { ...response, fields } })).toEqual([
      `response.fields has the unknown e164; use ${columns}`,
      `response.fields has the unknown constructor; use ${columns}`,
    ])
  })
})

const task = {
  ...batch,
  request: { body: { list: '{contacts}', id: '{reference}' } },
  response: { ...response, match: { contact: '/number' } },
  batch: {
    task: '/id',
    status: {
      url: 'https://api.example/tasks/{task}', pointer: '/state', values: { done: 'ended' },
    },
  },
}
const { status } = task.batch

it.each([
  ['a task before there is one', { request: { body: ['{contacts}', '{task}'] } }, [
    'request has {task}, which is known after it; use {reference}',
  ]],
  ['a reference without a batch', { batch: undefined }, [
    'request has {reference} without batch',
  ]],
  ['answers by row', { response: { ...response, match: { row: '/ref' } } }, [
    'response.match needs request to send {row} or {rowNumber}',
    'batch needs response.match with contact, or the key contact',
    'batch matches answers by contact; remove row from response.match',
  ]],
  ['a reference that is not sent', {
    request: { body: '{contacts}' }, batch: { ...task.batch, idempotent: true },
  }, ['batch.find and batch.idempotent need request to send {reference}']],
  ['a result from nowhere', { batch: { ...task.batch, result: {} } }, [
    'batch.result needs url or link, and not both',
  ]],
  ['a task without an end', {
    batch: { ...task.batch, status: { ...status, values: { done: 'failed' } } },
  }, ['batch.status.values must say which value is ended']],
  ['the status of any task', {
    batch: { ...task.batch, status: { ...status, url: 'http://api.example/{contact}' } },
  }, [
    'batch.status must send {task}',
    'batch.status has {contact}; use {task}, {reference} or {service}',
    'batch.status: url must begin with https://, because calls contain contacts',
  ]],
  ['two bodies', { request: { ...task.request, multipart: { a: '{lines}' } } }, [
    'request has body and multipart; give one of them',
  ]],
])('the description of a vendor that takes batches refuses %s', (_, more, faults) => {
  expect(faultsOf({ ...task, ...more })).toEqual(faults)
})

it('HTTP_PROVIDERS reports all faults of all vendors at once, without values', () => {
  expect(readHttpProviders([
    { ...batch, id: 0, auth: { kind: 'bearer', toke: 'geheim' }, method: 'PATCH' },
    'geheim',
    { ...batch, url: 'http://geheim.example', maxRows: 5, extra: 'geheim', services: [] },
    batch, batch,
  ]).faults).toEqual([
    'vendor 1: at "id" must be >= 1',
    'vendor 1: at "method" must be one of GET, POST, PUT',
    'vendor 1: at auth: must have required properties token',
    'vendor 1: at auth: has unknown properties (1); remove or rename them',
    'vendor 2: must be object',
    'vendor 3: has unknown properties (1); remove or rename them',
    'vendor 3: at "services" must not have fewer than 1 items',
    'the id 1 is used more than once; give each vendor its own',
  ])
})

const words = listVendorWords({
  name: 'Zyxoria Ltd', words: ['Numverse'], url: 'https://api.eu3.zyxoria-lookup.com/v1',
})
const read = (column: string, text: string) => VENDOR_COLUMNS[column]?.(text, words)

describe('a column that a vendor fills', () => {
  it.each([
    'Vodafone', 'T-Mobile US, Inc.', 'AT&T', 'Orange S.A.', 'Телеком', '中国移动', 'O2 (UK)',
    'Telefónica', "Côte d'Ivoire Telecom", '3 Hutchison', 'SFR / Altice',
  ])('has a name of a carrier or place: %s', (text) => {
    expect(read('carrier', `  ${text} \n`)).toBe(text)
  })

  it.each([
    'Zyxoria', 'zyx-oria ltd', 'via ZYXORIA LTD.', 'Numverse Mobile', 'ＮＵＭＶＥＲＳＥ',
    'Zyxoria Lookup', 'acme.com', 'see www.acme', 'https://acme', 'me@acme', 'tsk_9f8e7d6c',
    '9f8e7d6c5b4a', 'task 0a1b2c3d4', 'Order 12345', '9f8e7d6c-0000', '+12127365000', '', '   ',
    '42', 'x'.repeat(61), 'a\u0000b', '<b>Vodafone</b>', '{"a":1}', '=SUM(A1)',
  ])('has no text that identifies the vendor or is no name: %s', (text) => {
    expect(read('carrier', text)).toBeUndefined()
  })

  it('has none of the identifying words of the name and host of the vendor', () => {
    expect(words).toEqual(['zyxorialtd', 'numverse', 'eu3', 'zyxorialookup', 'zyxoria', 'lookup'])
    expect(listVendorWords({ name: 'One', url: 'http://127.0.0.1:8080' })).toEqual(['one'])
  })

  it.each([
    ['line_type', 'mobile', 'CELL'], ['timezone', 'Europe/Berlin', 'Europe/Zyxoria'],
    ['timezone', 'Asia/Calcutta', 'Zyxoria'], ['mcc', '262', '26'], ['mnc', '01', '1'],
    ['ported', 'true', 'yes'], ['voip_type', 'non_fixed', 'nonFixedVoip'],
    ['whatsapp', 'false', 'False'], ['catch_all', 'true', '1'],
    ['suggestion', 'gmail.com', 'zyxoria.com'],
  ])('%s accepts %s, but not %s', (column, good, bad) => {
    expect([read(column, good), read(column, bad)]).toEqual([good, undefined])
  })
})
