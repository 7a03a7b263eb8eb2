import { describe, expect, it } from 'vitest'
import { meaningFaults } from '../../../../services/verify/providers/http-config.ts'
import type { HttpVendor } from '../../../../services/verify/providers/http-vendor.ts'
import { batchDescription } from '../../../support/vendors/vendor.ts'

const batch = batchDescription('https://api.example')
const { response } = batch
const faultsOf = (more: object) => meaningFaults({ ...batch, ...more } as unknown as HttpVendor)

describe('a vendor description that matches the schema', () => {
  it('has no fault without contradictions', () => {
    expect(faultsOf({})).toEqual([])
    expect(faultsOf({ url: 'http://localhost:8080/batch' })).toEqual([])
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
        '{row}, {rowNumber}, {rows}, {service}, {reference}, {task}',
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
    const columns = 'line_type, carrier, region, locality, timezone, mcc, mnc, ported, whatsapp, ' +
      'telegram, disposable, role, free, catch_all, mx_found, suggestion'
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

describe('the description of a vendor that takes batches', () => {
  it('has no fault without contradictions', () => {
    expect(faultsOf(task)).toEqual([])
    expect(faultsOf({ ...task, batch: { ...task.batch, idempotent: true } })).toEqual([])
  })

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
  ])('refuses %s', (_, more, faults) => {
    expect(faultsOf({ ...task, ...more })).toEqual(faults)
  })
})
