import { afterEach, describe, expect, it, vi } from 'vitest'
import type { HttpVendor } from '../../../../services/verify/providers/http-vendor.ts'
import { createVendorProvider } from '../../../../services/verify/providers/http.ts'
import { batchDescription } from '../../../support/vendors/vendor.ts'

afterEach(() => { vi.restoreAllMocks() })

/** What the vendor is sent for these contacts. */
async function requestOf (more: object, contacts = ['+12127365000', '+442071838750']) {
  const fetched = vi.spyOn(globalThis, 'fetch').mockRejectedValue(new Error('unreachable'))
  const vendor = batchDescription('https://api.example', { request: {}, ...more })
  const rows = contacts.map((canonical, row) => ({ row, canonical }))
  await createVendorProvider(vendor as unknown as HttpVendor).check(rows, {
    service: 'whatsapp',
    mode: 'live',
    signal: new AbortController().signal,
    deadlineMs: Infinity,
  }).catch(() => {})
  const [url, { method, body, headers }] = fetched.mock.calls[0] as [string, RequestInit]
  return { url, method, body, headers: Object.fromEntries(new Headers(headers)) }
}

describe('the request to a described vendor', () => {
  it('names its rows by references, as text or number', async () => {
    const sent = await requestOf({
      request: {
        body: { product: '{service}', n: 1, deep: [null, '{rows}'], all: '{contacts}' },
        row: ['{row}', '{rowNumber}', 'tel:{contact}', '{digits}'],
        services: { whatsapp: 'wa' },
      },
    })
    const { deep: [, [[, first]]] } = JSON.parse(String(sent.body)) as
      { readonly deep: readonly [null, readonly [readonly [string, number, string, string]]] }
    expect(first).toBeGreaterThanOrEqual(0)
    expect(sent).toEqual({
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
          [String(first), first, 'tel:+12127365000', '12127365000'],
          [String(first + 1), first + 1, 'tel:+442071838750', '442071838750'],
        ]],
        all: ['+12127365000', '+442071838750'],
      }),
    })
  })

  it('encodes contacts in the URL', async () => {
    const sent = await requestOf({
      url: 'https://api.example/of/{contact}/{service}?v=1',
      method: 'GET',
      request: { query: { q: '{contact}', id: '{rowNumber}' }, headers: { 'X-Version': '2' } },
      auth: { kind: 'query', name: 'key', value: 'k&y' },
    }, ['"a/b?c&d"@x.org'])
    const id = new URL(sent.url).searchParams.get('id')
    expect(id).toMatch(/^\d+$/)
    expect(sent).toEqual({
      url: 'https://api.example/of/%22a%2Fb%3Fc%26d%22%40x.org/whatsapp?v=1&' +
        `q=%22a%2Fb%3Fc%26d%22%40x.org&id=${id}&key=k%26y`,
      method: 'GET',
      headers: { accept: 'application/json', 'x-key': undefined, 'x-version': '2' },
      body: undefined,
    })
  })

  it('joins contacts in a query with commas, without authentication if there is none', async () => {
    const request = { query: { n: '{contacts}' } }
    const sent = await requestOf({ request, auth: { kind: 'none' } })
    expect(sent.url).toBe('https://api.example/batch?n=%2B12127365000%2C%2B442071838750')
    expect(sent.headers).toEqual({ accept: 'application/json' })
  })
})
