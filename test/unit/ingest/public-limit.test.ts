import { describe, expect, it } from 'vitest'
import { CONNECTION_DEFAULTS } from '../../../services/runtime/platform/http-server.ts'
import { createTestApp, doubles, settings } from './doubles.ts'

/** The limits refill hardly at all while a test runs. */
function open (requests = 20) {
  const connection = {
    ...CONNECTION_DEFAULTS, LIMIT_PUBLIC: requests, LIMIT_PUBLIC_SECONDS: 100_000,
  }
  const app = createTestApp({ deps: doubles(), settings, connection })
  const ask = (url: string, { key = '', remoteAddress = '192.0.2.1', ...headers }: {
    readonly key?: string, readonly remoteAddress?: string, readonly 'x-forwarded-for'?: string
  } = {}) => app.inject({
    url,
    remoteAddress: '10.0.0.1',
    headers: {
      'x-forwarded-proto': 'https',
      'x-forwarded-for': remoteAddress,
      ...headers,
      ...key === '' ? {} : { authorization: `Bearer ${key}` },
    },
  })
  return { ask }
}

describe('requests without a valid key', () => {
  it.each([
    ['/docs', ''], ['/nothing', ''], ['/nothing', 'wrong'], ['/api/v1/balance', ''],
    ['/api/v1/balance', 'wrong'], ['/openapi.json', 'live'], ['/%zz', ''],
  ])('of %s with the key "%s" are limited for their address', async (url, key) => {
    const { ask } = open()
    let answer = await ask(url, { key })
    for (let sent = 1; sent < 20; sent++) answer = await ask(url, { key })
    for (let sent = 0; sent < 2; sent++) answer = await ask(url, { key })
    expect([answer.statusCode, answer.json<{ error: { code: string } }>().error.code])
      .toEqual([429, 'rate_limited'])
    expect(Number(answer.headers['retry-after'])).toBeGreaterThanOrEqual(1)
    expect(answer.headers['x-request-id']).toMatch(/^req_/)
    // Customers behind the address and other addresses are served.
    expect((await ask('/api/v1/balance', { key: 'live' })).statusCode).toBe(200)
    expect((await ask('/docs', { remoteAddress: '192.0.2.2' })).statusCode).toBe(200)
  })

  it('close their connection with the first refusal', async () => {
    const { ask } = open()
    for (let sent = 0; sent < 25; sent++) await ask('/changelog')
    expect((await ask('/changelog')).headers.connection).toBe('close')
    expect((await ask('/api/v1/balance', { key: 'wrong' })).headers.connection).toBe('close')
  })

  it('cannot choose the address they count for', async () => {
    const { ask } = open()
    for (let sent = 0; sent < 25; sent++) await ask('/changelog')
    const hidden = await ask('/changelog', { 'x-forwarded-for': '198.51.100.1, 192.0.2.1' })
    expect(hidden.statusCode).toBe(429)
  })

  it('with a malformed X-Forwarded-For count for the proxy', async () => {
    const { ask } = open()
    for (const list of ['fe80::1%2001:db8::1', '192.0.2.1,', 'x']) {
      expect((await ask('/changelog', { 'x-forwarded-for': list })).statusCode).toBe(200)
    }
  })
})

describe('the documents', () => {
  it('are the same bytes for every request, and are not sent again', async () => {
    const { ask } = open(1_000)
    for (const url of ['/openapi.json', '/docs', '/changelog']) {
      const { headers, body } = await ask(url)
      expect((await ask(url)).body).toBe(body)
      expect(headers.etag).toMatch(/^"[0-9a-f]{32}"$/)
      expect(headers).toMatchObject({ 'cache-control': 'public, no-cache' })
    }
  })
})
