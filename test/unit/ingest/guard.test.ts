import { afterEach, describe, expect, it, vi } from 'vitest'
import { hashSecret, newApiKey } from '../../../services/accounts/api-keys.ts'
import type { IngestDeps } from '../../../services/ingest/deps.ts'
import { CONNECTION_DEFAULTS } from '../../../services/runtime/platform/http-server.ts'
import {
  application, createTestApp, doubles, good, JOB_ID, listen, settings, talk, type Sent,
} from './doubles.ts'

afterEach(() => { vi.useRealTimers() })

describe('authentication', () => {
  it.each([
    ['Bearer live', 'live'], ['bearer   live', 'live'],
    [`Bearer ${'x'.repeat(249)}`, 'x'.repeat(249)], [`Bearer ${'x'.repeat(250)}`, 'malformed'],
  ])('looks %.40s up as %.20s', async (authorization, secret) => {
    const secrets: string[] = []
    const { get } = application({
      findKey: async secret => { secrets.push(secret); return { kind: 'missing' } },
    })
    await get('/balance', { headers: { authorization } })
    expect(secrets).toEqual([secret])
  })

  it('names the scopes that a key lacks, and includes narrower ones', async () => {
    const { get } = application()
    const messageOf = async (path: string, key: string) =>
      (await get(path, { key })).json().error?.message as string | undefined
    expect(await messageOf(`/jobs/${JOB_ID}`, 'writer'))
      .toBe('The API key lacks the scope jobs:read. Use a key that has it.')
    expect(await messageOf('/usage', 'writer'))
      .toBe('The API key lacks the scope usage:read or jobs:read. Use a key that has it.')
    expect(await messageOf('/usage', 'reader')).toBeUndefined()
  })
})

describe('a client that guesses keys', () => {
  const [good, fresh, expired] = [newApiKey('live'), newApiKey('live'), newApiKey('live')]

  function guarded () {
    vi.useFakeTimers({ toFake: ['performance'] })
    vi.advanceTimersByTime(1)
    const { findKey } = doubles()
    const calls: string[] = []
    const reads: (readonly string[])[] = []
    const { app } = application({
      findKey: async (secret, address) => {
        calls.push(secret)
        if (secret === expired) return { kind: 'expired' }
        return await findKey([good, fresh].includes(secret) ? 'live' : 'unknown', address)
      },
      findExistingKeys: async hashes => {
        reads.push(hashes)
        const existing = [good, fresh, expired].map(hashSecret)
        return new Set(hashes.filter(hash => existing.includes(hash)))
      },
    })
    const ask = (address: string, key = newApiKey('live')) => app.inject({
      url: '/api/v1/balance',
      remoteAddress: '10.0.0.1',
      headers: {
        authorization: `Bearer ${key}`,
        'x-forwarded-proto': 'https',
        'x-forwarded-for': address,
      },
    })
    const status = async (address: string, key?: string) => (await ask(address, key)).statusCode
    const guessMany = async (address: string, times = 60) => {
      for (let sent = 0; sent < times; sent += 1) expect(await status(address)).toBe(401)
    }
    return { ask, status, guessMany, calls, reads }
  }

  it('is throttled after sixty unknown keys in a minute', async () => {
    const { ask, status, guessMany, calls } = guarded()
    await guessMany('192.0.2.1', 1)
    vi.advanceTimersByTime(20_000)
    await guessMany('192.0.2.1', 59)
    const throttled = await ask('192.0.2.1')
    expect([throttled.statusCode, throttled.headers['retry-after']]).toEqual([429, '40'])
    expect(throttled.json().error.message).toContain('unknown API keys')
    expect(calls).toHaveLength(60)
    expect(await status('192.0.2.2')).toBe(401)
    vi.advanceTimersByTime(40_001)
    expect(await status('192.0.2.1')).toBe(401)
  })

  it('is an IPv6 /64, or an IPv4 address in either notation', async () => {
    const { status, guessMany } = guarded()
    await guessMany('2001:db8:1:2::1')
    expect(await status('2001:db8:1:2:ffff::9')).toBe(429)
    expect(await status('2001:db8:1:3::1')).toBe(401)
    await guessMany('192.0.2.1')
    expect(await status('::ffff:192.0.2.1')).toBe(429)
  })

  it('does not affect keys from the same address that exist, known to the process or not',
    async () => {
      const { status, guessMany, reads } = guarded()
      expect(await status('192.0.2.1', good)).toBe(200)
      // A program that runs once a day.
      vi.advanceTimersByTime(86_400_000)
      await guessMany('192.0.2.1')
      expect(await status('192.0.2.1', good)).toBe(200)
      expect(reads).toEqual([])
      expect([await status('192.0.2.1', fresh), await status('192.0.2.1', expired)])
        .toEqual([200, 401])
    })

  it('makes the process read Redis once for as many keys as are sent meanwhile', async () => {
    const { status, guessMany, calls, reads } = guarded()
    for (const address of ['192.0.2.1', '192.0.2.2']) await guessMany(address)
    const guesses = Array.from({ length: 1_100 }, (_, at) => status(`192.0.2.${1 + at % 2}`))
    expect(new Set(await Promise.all(guesses))).toEqual(new Set([429]))
    expect(calls).toHaveLength(120)
    expect(reads.length).toBeLessThan(100)
    expect(Math.max(...reads.map(({ length }) => length))).toBeLessThanOrEqual(1_000)
    expect(await status('192.0.2.1', fresh)).toBe(200)
  })

  it('repeats one unknown key sixty times, which affects no new key of its address', async () => {
    const { status, calls } = guarded()
    const wrong = newApiKey('live')
    for (let sent = 0; sent < 60; sent += 1) expect(await status('192.0.2.1', wrong)).toBe(401)
    expect(await status('192.0.2.1', wrong)).toBe(429)
    expect(calls).toHaveLength(60)
    expect(await status('192.0.2.1', fresh)).toBe(200)
    expect(await status('192.0.2.1')).toBe(401)
  })

  it('may send malformed or expired keys without this limit', async () => {
    const { status } = guarded()
    for (const secret of ['malformed', expired]) {
      for (let sent = 0; sent < 70; sent += 1) {
        expect(await status('192.0.2.1', secret)).toBe(401)
      }
    }
  })
})

/** `createHttpsRule` decides, and has its own test; `e2e/contract` has it behind a proxy. */
describe('plain HTTP', () => {
  it('is refused before the key is read, and for documents too', async () => {
    const { app } = application({ findKey: () => Promise.reject(new Error('unexpected call')) })
    for (const url of ['/api/v1/balance', '/', '/docs', '/openapi.json', '/changelog']) {
      expect((await app.inject({ url, remoteAddress: '192.0.2.1' })).statusCode).toBe(403)
    }
    expect(() => application({}, { trustedProxies: ['proxy.example'] })).toThrow(/TRUSTED_PROXIES/)
  })
})

it.each(['/api/v1/balance', `/api/v1/jobs/${JOB_ID}`, '/api/v1/jobs', '/docs'])(
  'a path with a slash at its end is the same: %s', async url => {
    const { app } = application()
    const ask = async (path: string) => {
      const { statusCode, body } = await app.inject({
        url: path, headers: { authorization: 'Bearer live' },
      })
      return [statusCode, body]
    }
    expect(await ask(`${url}/`)).toEqual(await ask(url))
    expect(await ask(`${url}/`)).toEqual([200, expect.any(String)])
  })

/** Headers of answers that no cache keeps, and whose type no browser guesses. */
const PROTECTED = { 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' }

it.each([
  [200, '/api/v1/balance', 'live'], [401, '/api/v1/balance', 'unknown'],
  [404, '/api/v1/nothing', 'live'], [405, '/api/v1/quotes', 'live'],
])('an answer with %i to %s may be neither cached nor sniffed', async (status, url, key) => {
  const { app } = application()
  const answer = await app.inject({ url, headers: { authorization: `Bearer ${key}` } })
  expect(answer.statusCode).toBe(status)
  expect(answer.headers).toMatchObject(PROTECTED)
})

it.each([
  ['*/*', 202], ['application/*;q=0.1', 202], ['text/html, application/json', 202], ['', 202],
  ['text/csv', 406], ['application/json;q=0, */*', 406],
])('what the client accepts, %s, is answered with %i', async (accept, status) => {
  const { post, calls } = application()
  expect((await post(good, { headers: { accept } })).statusCode).toBe(status)
  expect(calls.submissions.length).toBe(status === 202 ? 1 : 0)
})

describe('the limits of requests', () => {
  const at = (tokens: number) => [{ bucket: { capacity: 2, seconds: 60 }, tokens }]
  const headers = {
    'ratelimit-limit': '2',
    'ratelimit-remaining': '0',
    'ratelimit-reset': '45',
    'ratelimit-policy': '2;w=60',
  }

  /** A limiter with one answer to all; `calls` records its requests. */
  function limiterOf (kind: 'admitted' | 'throttled') {
    const calls: unknown[] = []
    const limiter: IngestDeps['limiter'] = {
      admit: async request => { calls.push(request); return { kind, levels: at(0.5) } },
      levels: async () => at(0.5),
    }
    return { limiter, calls }
  }

  it.each<[line: string, status: number, kind: string, retryAfter?: string, sent?: Sent]>([
    ['POST /jobs', 202, 'post'],
    ['POST /jobs', 202, 'post', '0', { key: 'test' }],
    ['POST /jobs', 403, 'post', '0', { key: 'reader' }],
    ['POST /jobs', 406, 'post', '0', { headers: { accept: 'image/png' } }],
    [`GET /jobs/${JOB_ID}/results`, 409, 'get', '1'],
    ['GET /nothing', 404, 'get'],
    ['PUT /jobs', 405, 'post'],
    ['OPTIONS /jobs', 204, 'post'],
  ])('are in the headers of an answer to %s with %i', async (...row) => {
    const [line, status, kind, retryAfter = '0', sent = {}] = row
    const { limiter, calls } = limiterOf('admitted')
    const [method = '', path = ''] = line.split(' ')
    const body = method === 'POST' ? good : undefined
    const answer = await application({ limiter }).send(method, path, { ...sent, body })
    expect(answer.statusCode).toBe(status)
    expect(answer.headers).toMatchObject({ ...headers, 'retry-after': retryAfter })
    expect(calls).toEqual([{ org: 'org_01', kind }])
  })

  it('are as they are when the answer is sent, however long it waited', async () => {
    const { limiter } = limiterOf('admitted')
    const { post } = application({ limiter: { ...limiter, levels: async () => at(1) } })
    expect((await post(good)).headers).toMatchObject({
      ...headers, 'ratelimit-remaining': '1', 'ratelimit-reset': '30', 'retry-after': '0',
    })
  })

  it('count no request without a caller', async () => {
    const { limiter, calls } = limiterOf('admitted')
    const { app, get, post } = application({ limiter })
    const answers = [
      await get(`/jobs/${JOB_ID}`, { key: 'unknown' }), await post(good, { key: 'revoked' }),
      await app.inject('/changelog'), await app.inject('/api/v1/nothing'),
      await get('/nothing', { key: 'unknown' }),
    ]
    expect(answers.map(answer => answer.statusCode)).toEqual([401, 401, 200, 404, 404])
    for (const answer of answers) expect(answer.headers).not.toHaveProperty('ratelimit-limit')
    expect(calls).toEqual([])
  })

  it('refuse a request with Retry-After before its body is parsed', async () => {
    const { limiter } = limiterOf('throttled')
    const { post, calls } = application({ limiter })
    const answer = await post('{', { headers: { accept: 'image/png' } })
    expect([answer.statusCode, answer.json().error.code]).toEqual([429, 'rate_limited'])
    expect(answer.headers).toMatchObject({ ...headers, 'retry-after': '15' })
    expect(calls.submissions).toEqual([])
  })
})

describe('requests without a valid key', () => {
  /** The limits refill hardly at all while a test runs. */
  function open () {
    const connection = { ...CONNECTION_DEFAULTS, LIMIT_PUBLIC: 20, LIMIT_PUBLIC_SECONDS: 100_000 }
    const app = createTestApp({ deps: doubles(), settings, connection })
    return (url: string, key = '', from = '192.0.2.1') => app.inject({
      url,
      remoteAddress: '10.0.0.1',
      headers: {
        'x-forwarded-proto': 'https',
        'x-forwarded-for': from,
        ...key === '' ? {} : { authorization: `Bearer ${key}` },
      },
    })
  }

  it.each([
    ['/docs', ''], ['/nothing', ''], ['/nothing', 'wrong'], ['/api/v1/balance', ''],
    ['/api/v1/balance', 'wrong'], ['/openapi.json', 'live'], ['/%zz', ''],
  ])('of %s with the key "%s" are limited for their address', async (url, key) => {
    const ask = open()
    for (let sent = 0; sent < 21; sent++) await ask(url, key)
    const answer = await ask(url, key)
    expect([answer.statusCode, answer.json<{ error: { code: string } }>().error.code])
      .toEqual([429, 'rate_limited'])
    expect(Number(answer.headers['retry-after'])).toBeGreaterThanOrEqual(1)
    expect(answer.headers['x-request-id']).toMatch(/^req_/)
    expect(answer.headers).toMatchObject({ connection: 'close', ...PROTECTED })
    // Customers behind the address and other addresses are served.
    expect((await ask('/api/v1/balance', 'live')).statusCode).toBe(200)
    expect((await ask('/docs', '', '192.0.2.2')).statusCode).toBe(200)
    // The client cannot choose the address it counts for.
    expect((await ask(url, key, '198.51.100.1, 192.0.2.1')).statusCode).toBe(429)
  })
})

it('a request behind the last one of a connection is not carried out', async () => {
  const connection = { ...CONNECTION_DEFAULTS, MAX_REQUESTS_PER_CONNECTION: 2 }
  const app = createTestApp({ deps: doubles(), settings, connection })
  const lines = ['/1', '/2', '/3', '/4'].map(path => `GET ${path} HTTP/1.1\r\nhost: x\r\n\r\n`)
  const text = await talk(await listen(app), lines.join('')).answer()
  const statuses = [...text.matchAll(/HTTP\/1\.1 (\d+) /g)].map(([, status]) => Number(status))
  expect(statuses.slice(0, 2)).toEqual([404, 404])
  expect(statuses.slice(2).every(status => status === 503)).toBe(true)
  expect(text.match(/^connection: close\r$/gim)?.length).toBeGreaterThanOrEqual(1)
})
