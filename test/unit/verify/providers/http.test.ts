import { describe, expect, it } from 'vitest'
import type { HttpVendor } from '../../../../services/verify/providers/http-vendor.ts'
import { prepareCall } from '../../../../services/verify/providers/http.ts'
import { batchDescription } from '../../../support/vendors/vendor.ts'

const requested = [
  { row: 7, canonical: '+12127365000', reference: 900 },
  { row: 3, canonical: '+442071838750', reference: 901 },
]

function callOf (more: object, rows = requested) {
  const vendor = batchDescription('https://api.example', { request: {}, ...more })
  const { url, init } = prepareCall(vendor as unknown as HttpVendor,
    { requested: rows, service: 'whatsapp' })
  const headers = Object.fromEntries(new Headers(init.headers))
  return { url, headers, method: init.method, body: init.body }
}

describe('the request to a described vendor', () => {
  it('names its rows by references, as text or number', () => {
    expect(callOf({
      request: {
        body: { product: '{service}', n: 1, deep: [null, '{rows}'], all: '{contacts}' },
        row: ['{row}', '{rowNumber}', 'tel:{contact}', '{digits}'],
        services: { whatsapp: 'wa' },
      },
    })).toEqual({
      url: 'https://api.example/batch',
      method: 'POST',
      headers: {
        accept: 'application/json',
        'content-type': 'application/json',
        'x-key': 'zyx_live_0f1e2d3c4b5a',
      },
      body: JSON.stringify({
        product: 'wa',
        n: 1,
        deep: [null, [
          ['900', 900, 'tel:+12127365000', '12127365000'],
          ['901', 901, 'tel:+442071838750', '442071838750'],
        ]],
        all: ['+12127365000', '+442071838750'],
      }),
    })
  })

  it('encodes contacts in the URL', () => {
    const one = [{ row: 0, canonical: '"a/b?c&d"@x.org', reference: 5 }]
    expect(callOf({
      url: 'https://api.example/of/{contact}/{service}?v=1',
      method: 'GET',
      request: { query: { q: '{contact}', id: '{rowNumber}' }, headers: { 'X-Version': '2' } },
      auth: { kind: 'query', name: 'key', value: 'k&y' },
    }, one)).toEqual({
      url: 'https://api.example/of/%22a%2Fb%3Fc%26d%22%40x.org/whatsapp?v=1&' +
        'q=%22a%2Fb%3Fc%26d%22%40x.org&id=5&key=k%26y',
      method: 'GET',
      headers: { accept: 'application/json', 'x-key': undefined, 'x-version': '2' },
      body: undefined,
    })
  })

  it('joins contacts in a query with commas', () => {
    expect(callOf({ request: { query: { n: '{contacts}' } } }).url)
      .toBe('https://api.example/batch?n=%2B12127365000%2C%2B442071838750')
  })

  it.each([
    [{ kind: 'bearer', token: 't' }, 'Bearer t'],
    [{ kind: 'basic', username: 'u', password: 'p:q' }, 'Basic dTpwOnE='],
    [{ kind: 'none' }, undefined],
  ])('has the authentication %o', (auth, expected) => {
    expect(callOf({ auth }).headers.authorization).toBe(expected)
  })
})
