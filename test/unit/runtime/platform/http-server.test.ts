import Fastify from 'fastify'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  CONNECTION_DEFAULTS, createDocument, createHttpsRule, explainListenError, listenAt,
  PublicLimit, sendDocument,
} from '../../../../services/runtime/platform/http-server.ts'
import { root } from '../../../support/sources.ts'

const TEXT = 'A text. '.repeat(1_000)

async function createApp () {
  const document = await createDocument('text/plain; charset=utf-8', TEXT)
  const app = Fastify()
  app.get('/', async (request, reply) =>
    sendDocument(request, reply, { document, cacheControl: 'public, no-cache' }))
  const ask = async (headers: Record<string, string>, method: 'GET' | 'HEAD' = 'GET') =>
    await app.inject({ method, url: '/', headers })
  return { ask, document }
}

describe('a constant document', () => {
  it.each([
    [undefined, undefined], ['identity', undefined], ['gzip, br', 'br'], ['gzip', 'gzip'],
    ['*', 'gzip'], ['br;q=0.5, gzip', 'gzip'], ['br;q=0, gzip;q=0', undefined],
  ])('for a client that accepts %s is sent as %s', async (accepted, coding) => {
    const { ask } = await createApp()
    const { headers, rawPayload } = await ask(accepted ? { 'accept-encoding': accepted } : {})
    expect(headers).toMatchObject({
      vary: 'Accept-Encoding',
      'cache-control': 'public, no-cache',
      'content-length': String(rawPayload.length),
      'content-type': 'text/plain; charset=utf-8',
    })
    expect(headers['content-encoding']).toBe(coding)
    const decode = { br: brotliDecompressSync, gzip: gunzipSync }[coding ?? ''] ?? String
    expect(String(decode(rawPayload as never))).toBe(TEXT)
  })

  it('is not sent again to a client that has it', async () => {
    const { ask } = await createApp()
    const codings = ['identity', 'gzip', 'br']
    const tags = await Promise.all(codings.map(async accepted =>
      String((await ask({ 'accept-encoding': accepted })).headers.etag)))
    expect(new Set(tags).size).toBe(3)
    for (const [at, tag] of tags.entries()) {
      const headers = { 'accept-encoding': codings[at] ?? '', 'if-none-match': `"x", ${tag}` }
      const answer = await ask(headers)
      expect([answer.statusCode, answer.body, answer.headers.etag]).toEqual([304, '', tag])
    }
  })

  it('has the headers of its answer without the bytes for HEAD', async () => {
    const { ask, document } = await createApp()
    const answer = await ask({ 'accept-encoding': 'br' }, 'HEAD')
    expect([answer.statusCode, answer.body, answer.headers['content-length']])
      .toEqual([200, '', String(document.coded.br.bytes.length)])
  })
})

const from = (remoteAddress: string, more: object = {}, headers: object = {}) =>
  ({ socket: { remoteAddress, ...more }, headers }) as never
const overHttps = { 'x-forwarded-proto': 'https' }

describe('the HTTPS rule', () => {
  const rule = createHttpsRule(['10.0.0.0/8'])

  it('accepts TLS, loopback, and what a trusted proxy forwards, and nothing else', () => {
    expect(rule(from('203.0.113.9', { encrypted: true }))).toBe('https')
    expect(['203.0.113.9', '10.1.2.3'].map(address => rule(from(address))))
      .toEqual(['refused', 'refused'])
    expect(['203.0.113.9', '11.0.0.0', '10.1.2.3', '::ffff:10.1.2.3'].map(address =>
      rule(from(address, {}, overHttps)))).toEqual(['refused', 'refused', 'https', 'https'])
    expect(['http', 'https, http'].map(proto =>
      rule(from('10.1.2.3', {}, { 'x-forwarded-proto': proto })))).toEqual(['refused', 'refused'])
    for (const address of ['127.0.0.1', '127.0.0.9', '::1', '::ffff:127.0.0.1']) {
      const rules = [{}, overHttps, { 'x-forwarded-proto': 'http' }]
        .map(headers => rule(from(address, {}, headers)))
      expect(rules).toEqual(['loopback', 'loopback', 'refused'])
    }
  })

  it('names an invalid proxy', () => {
    expect(() => createHttpsRule(['proxy.example']))
      .toThrow('TRUSTED_PROXIES: "proxy.example" is not an address or network')
  })
})

function setUp () {
  const clock = { ms: 0 }
  const settings = {
    ...CONNECTION_DEFAULTS, LIMIT_PUBLIC: 100, LIMIT_PUBLIC_ALL: 250, LIMIT_PUBLIC_SECONDS: 10,
  }
  const limit = new PublicLimit(settings, () => clock.ms)
  const admitted = (address: string, requests: number) =>
    Array.from({ length: requests }, () => limit.take(address)).filter(wait => wait === 0).length
  return { clock, limit, admitted }
}

describe('the limit of requests without a key', () => {
  it('is that of an address, and refills', () => {
    const { clock, limit, admitted } = setUp()
    expect(admitted('192.0.2.1', 200)).toBe(100)
    expect(limit.take('192.0.2.1')).toBe(1)
    expect([limit.waitSeconds('192.0.2.1'), limit.waitSeconds('192.0.2.2')]).toEqual([1, 0])
    clock.ms += 2_000
    expect(admitted('192.0.2.1', 200)).toBe(20)
  })

  it('is one for an IPv6 network and for forms of an address', () => {
    const { admitted } = setUp()
    expect(admitted('2001:db8::1', 60) + admitted('2001:db8::2', 60)).toBe(100)
    expect(admitted('192.0.2.1', 60) + admitted('::ffff:192.0.2.1', 60)).toBe(100)
  })

  it('counts large answers', () => {
    const { limit, admitted } = setUp()
    for (let sent = 0; sent < 10; sent++) limit.addBytes('192.0.2.1', 65_536 * 9 + 5)
    expect(admitted('192.0.2.1', 100)).toBe(10)
    limit.addBytes('192.0.2.1', 65_536 * 50)
    expect(limit.take('192.0.2.1')).toBe(6)
  })

  it('of all leaves a part of theirs to those that have sent hardly any', () => {
    const { clock, limit, admitted } = setUp()
    expect(['1', '2', '3'].map(at => admitted(`192.0.2.${at}`, 100))).toEqual([100, 100, 50])
    expect(admitted('192.0.2.4', 100)).toBe(5)
    expect(limit.take('192.0.2.3')).toBeGreaterThan(0)
    clock.ms += 10_000
    expect(admitted('192.0.2.3', 100)).toBe(100)
  })
})

const other = createServer()
let port = 0
beforeAll(async () => {
  await new Promise<void>(resolve => { other.listen(0, '127.0.0.1', resolve) })
  ;({ port } = other.address() as AddressInfo)
})
afterAll(() => { other.close() })

describe('a port that another process uses', () => {
  it('is named with the setting that selects another', async () => {
    await expect(listenAt(createServer(), { host: '127.0.0.1', port }, 'PORT_HTTP')).rejects
      .toThrow(`port ${port} is in use: another process listens at 127.0.0.1. Stop that process, ` +
        'or set PORT_HTTP to another port.')
  })

  it.each([
    ['deploy/openid-provider.ts', () => ['--port', String(port), '--page', 'http://localhost:1']],
    ['deploy/examples/webhook-receiver.ts', () => []],
  ] as const)('ends %s with one line', async (program, words) => {
    // The provider listens at localhost, which is ::1 on some machines.
    const local = createServer()
    await new Promise<unknown>(resolve => {
      local.once('error', resolve).listen(port, 'localhost', () => { resolve(undefined) })
    })
    const child = spawn(process.execPath, [program, ...words()], {
      cwd: root,
      env: { PATH: process.env['PATH'], PORT: String(port), WEBHOOK_SECRET: 'whsec_x' },
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    const [lines] = await Promise.all([text(child.stderr), once(child, 'exit')])
    local.close()
    const line = new RegExp(`(^|\\n)[^\\n]*port ${port} is in use: .+\\n$`)
    expect([lines, child.exitCode]).toEqual([expect.stringMatching(line), 1])
  })
})

it('other errors of a listener are passed on, or say what to do', () => {
  const error = new Error('x')
  expect(explainListenError(error, 'PORT')).toBe(error)
  const reserved = Object.assign(error, { code: 'EACCES', address: '::', port: 80 })
  expect(explainListenError(reserved, 'PORT')).toMatchObject({
    message: 'port 80 of :: is reserved for the system. Set PORT to a port above 1023, or grant ' +
      'the right to use it.',
  })
})
