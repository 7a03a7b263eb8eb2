import { describe, expect, it } from 'vitest'
import { meaningFaults } from '../../../../services/verify/providers/http-config-meaning.ts'
import type { HttpVendor } from '../../../../services/verify/providers/http-vendor.ts'
import { batchDescription } from '../../../support/vendor.ts'

const batch = batchDescription('https://api.example')
const { response } = batch
const faultsOf = (more: object) => meaningFaults({ ...batch, ...more } as unknown as HttpVendor)

describe('the meaning of a description', () => {
  it('has no fault when the vendor can be asked and understood', () => {
    expect(faultsOf({})).toEqual([])
    expect(faultsOf({ url: 'http://localhost:8080/batch' })).toEqual([])
  })

  it.each([
    ['an address that is none', { url: 'api' }, ['url is no address; write https://host/path']],
    ['contacts in the clear', { url: 'http://api.example/' }, [
      'url must begin with https://, as contacts travel there',
    ]],
    ['a password in the address', { url: 'https://a:b@api.example/' }, [
      'url must hold no password; use auth of the kind basic',
    ]],
    ['a strange placeholder', { request: { body: ['{rows}'], row: { n: '{contact}{nr}{row}' } } }, [
      'request has the placeholder {nr}; there are {contact}, {digits}, {contacts}, {row}, ' +
        '{rowNumber}, {rows}, {service}',
    ]],
    ['no contact', { request: { body: {} } }, [
      'request must send the contact; use {contact}, {digits} or {contacts}',
      'response.match needs request to send {row} or {rowNumber}',
    ]],
    ['one contact for many rows', { request: { query: { a: '{contact}', b: '{row}' } } }, [
      'request sends one row by {contact}, {row}, but maxRows says more',
    ]],
    ['a body of GET', { method: 'GET' }, ['request.body needs the method POST or PUT']],
    ['rows without a form', { request: { query: { a: '{contacts}' }, body: { row: '{rows}' } } }, [
      'request.row describes what {rows} in request.body lists; give both or none',
      'response.match needs request to send {row} or {rowNumber}',
    ]],
    ['rows known by their place', { response: { ...response, match: undefined } }, [
      'response.match must tell how the rows of an answer are known',
      'response.rows needs response.match',
    ]],
    ['rows known by nothing', { response: { ...response, match: {} } }, [
      'response.match must name row, contact or key',
    ]],
    ['rows nowhere', { response: { ...response, rows: undefined } }, [
      'response.rows must point at the rows of an answer',
    ]],
    ['no column of the service', { response: { ...response, fields: {} } }, [
      'response.fields must fill the column whatsapp of that service',
      'response.fields must fill the column telegram of that service',
    ]],
    ['a column of another service', {
      response: { ...response, fields: { ...response.fields, mcc: { pointer: '/mcc' } } },
    }, ['response.fields has mcc, which results of its services have not']],
    ['words that a column has not', {
      response: {
        ...response,
        fields: { ...response.fields, line_type: { pointer: '', values: { a: 'cell' } } },
      },
    }, ['response.fields.line_type has values that the column cannot hold']],
    ['a word for a service it has not', { request: { ...batch.request, services: { fax: 'f' } } }, [
      'request.services has fax, which services does not list',
    ]],
    ['a status that is none', { errors: { statuses: { 4: 'auth', '5xx': 'unavailable' } } }, [
      'errors.statuses has 4; write a status such as 429, or 5xx, for one of timeout, ' +
        'rate_limited, unavailable, rejected_input, auth, bad_response',
    ]],
  ])('refuses %s', (_, more, faults) => {
    expect(faultsOf(more)).toEqual(faults)
  })

  it('names the columns that a vendor may fill', () => {
    const fields = { ...response.fields, e164: { pointer: '/e164' }, constructor: { pointer: '' } }
    const columns = 'line_type, carrier, region, locality, timezone, mcc, mnc, ported, whatsapp, ' +
      'telegram, disposable, role, free, catch_all, mx_found, suggestion'
    expect(faultsOf({ response: { ...response, fields } })).toEqual([
      `response.fields has e164; there are ${columns}`,
      `response.fields has constructor; there are ${columns}`,
    ])
  })
})
