import {
  CONNECTION_DEFAULTS, createPublicLimit, readClientAddresses,
} from '../../../services/runtime/platform/http-server.ts'
import { networksOf } from '../../../services/runtime/platform/networks.ts'
import Fastify, { type FastifyReply, type FastifyRequest } from 'fastify'
import { describe, expect, it } from 'vitest'
import { answerFailures } from '../../../services/ingest/failures.ts'
import { callerOf, createHttpsCheck, guardRoutes } from '../../../services/ingest/guard.ts'
import {
  application, doubles, good, JOB_ID, KEY_ID, outage, settings, type Sent,
} from './doubles.ts'

describe('authentication', () => {
  it.each<[what: string, sent: Sent, status: number, code: string]>([
    ['no header', { headers: { authorization: '' } }, 401, 'missing_key'],
    ['another scheme', { headers: { authorization: 'Basic bGl2ZQ==' } }, 401, 'invalid_key'],
    ['no key', { headers: { authorization: 'Bearer' } }, 401, 'invalid_key'],
    ['two keys in one header', { headers: { authorization: 'Bearer live live' } },
      401, 'invalid_key'],
    ['an unknown key', { key: 'unknown' }, 401, 'invalid_key'],
    ['a key of 10 kB', { key: 'x'.repeat(10_000) }, 401, 'invalid_key'],
    ['an expired key', { key: 'expired' }, 401, 'expired_key'],
    ['a revoked key', { key: 'revoked' }, 401, 'revoked_key'],
    ['a key that may only read', { key: 'reader' }, 403, 'insufficient_scope'],
  ])('%s', async (...[, sent, status, code]) => {
    const { post, calls } = application()
    const answer = await post('not even JSON', sent)
    expect([answer.statusCode, answer.json().error.code]).toEqual([status, code])
    expect(answer.headers['www-authenticate']).toBe(status === 401 ? 'Bearer' : undefined)
    expect(calls.submissions).toEqual([])
  })

  it('a key that may only write can not read', async () => {
    const { get } = application()
    const answer = await get(`/jobs/${JOB_ID}`, { key: 'writer' })
    expect(answer.json().error).toMatchObject({ code: 'insufficient_scope', type: 'permission' })
    expect(answer.json().error.message).toContain('jobs:read')
  })

  it('a key in the query counts for nothing', async () => {
    const { app } = application()
    const answer = await app.inject(`/api/v1/jobs/${JOB_ID}?api_key=live&access_token=live`)
    expect(answer.json().error.code).toBe('missing_key')
  })

  it('the scheme is read in any case', async () => {
    const { get } = application()
    const answer = await get(`/jobs/${JOB_ID}`, { headers: { authorization: 'bEARER live' } })
    expect(answer.statusCode).toBe(200)
  })

  it('is 503 when keys can not be read', async () => {
    const { get } = application({ findKey: () => Promise.reject(outage) })
    expect((await get(`/jobs/${JOB_ID}`)).json().error.code).toBe('temporarily_unavailable')
  })
})

describe('plain HTTP', () => {
  it.each<[what: string, sent: Sent, isTaken: boolean]>([
    ['on this machine', { remoteAddress: '127.0.0.9' }, true],
    ['on this machine, IPv6', { remoteAddress: '::1' }, true],
    ['on this machine, mapped', { remoteAddress: '::ffff:127.0.0.1' }, true],
    ['from elsewhere', { remoteAddress: '192.0.2.1' }, false],
    ['from elsewhere with a claim', {
      remoteAddress: '192.0.2.1', headers: { 'x-forwarded-proto': 'https' },
    }, false],
    ['behind the proxy', {
      remoteAddress: '10.1.2.3', headers: { 'x-forwarded-proto': 'https' },
    }, true],
    ['of a proxy on this machine', {
      remoteAddress: '127.0.0.1', headers: { 'x-forwarded-proto': 'http' },
    }, false],
    ['in front of the proxy', {
      remoteAddress: '::ffff:10.1.2.3', headers: { 'x-forwarded-proto': 'http' },
    }, false],
    ['at a proxy that says nothing', { remoteAddress: '10.1.2.3' }, false],
    ['of a proxy with two opinions', {
      remoteAddress: '10.1.2.3', headers: { 'x-forwarded-proto': 'https, http' },
    }, false],
  ])('%s', async (_, sent, isTaken) => {
    const { get } = application()
    const answer = await get(`/jobs/${JOB_ID}`, sent)
    expect([answer.statusCode, answer.json().error?.code])
      .toEqual(isTaken ? [200, undefined] : [403, 'https_required'])
  })

  it('is refused before the key is read', async () => {
    const { get } = application({ findKey: () => Promise.reject(new Error('unexpected call')) })
    expect((await get(`/jobs/${JOB_ID}`, { remoteAddress: '192.0.2.1' })).statusCode).toBe(403)
  })

  it('refuses a proxy that is no address', () => {
    expect(() => application({}, { trustedProxies: ['proxy.example'] })).toThrow(/TRUSTED_PROXIES/)
  })
})

describe('an unknown path or method', () => {
  it.each([
    ['PUT', '/api/v1/jobs', 405, 'POST, GET, HEAD, OPTIONS'],
    ['HEAD', '/api/v1/quotes', 405, 'POST, OPTIONS'],
    ['TRACE', '/changelog', 405, 'GET, HEAD, OPTIONS'],
    ['PUT', '/api/v1/jobs/', 405, 'POST, GET, HEAD, OPTIONS'],
    ['GET', '/healthz', 404, undefined],
    ['GET', '/readyz', 404, undefined],
    ['PATCH', `/api/v1/jobs/${JOB_ID}?x=1`, 405, 'GET, HEAD, DELETE, OPTIONS'],
    ['PROPFIND', `/api/v1/jobs/${JOB_ID}/results`, 405, 'GET, HEAD, OPTIONS'],
    ['OPTIONS', '/api/v1/nothing', 404, undefined],
    ['GET', '/metrics', 404, undefined],
    ['POST', '/api/v1/nothing', 404, undefined],
    ['GET', '//api/v1/jobs', 404, undefined],
    ['GET', '/api/v1/jobs/%2e%2e/x', 404, undefined],
    ['GET', '/api/v1/jobs/%zz', 404, undefined],
    ['GET', `/api/v1/jobs/${'x'.repeat(1_000)}`, 404, undefined],
  ] as const)('%s %.30s is %i', async (...[method, url, status, allow]) => {
    const { app } = application()
    const answer = await app.inject({ method: method as 'GET', url, payload: '<xml/>' })
    expect([answer.statusCode, answer.headers.allow]).toEqual([status, allow])
    expect(answer.headers['x-request-id']).toMatch(/^req_/)
    expect(answer.headers['api-version']).toBe('2026-08-11')
    // An answer to HEAD has no body.
    const code = method === 'HEAD' ? undefined : answer.json().error.code
    if (method !== 'HEAD') expect(code).toBe(status === 405 ? 'method_not_allowed' : 'not_found')
  })
})

describe('what the client accepts', () => {
  it.each([
    ['*/*', 202], ['application/*;q=0.1', 202], ['text/html, application/json', 202], ['', 202],
    ['text/csv', 406], ['application/json;q=0, */*', 406],
  ])('%s', async (accept, status) => {
    const { post, calls } = application()
    const answer = await post(good, { headers: { accept } })
    expect(answer.statusCode).toBe(status)
    expect(calls.submissions.length).toBe(status === 202 ? 1 : 0)
  })

  it('is a form of the results', async () => {
    const { get } = application()
    const answer = await get(`/jobs/${JOB_ID}/results`, { headers: { accept: 'image/png' } })
    expect(answer.json().error).toMatchObject({
      code: 'not_acceptable', available: ['text/csv', 'application/json', 'application/x-ndjson'],
    })
  })
})

describe('a document', () => {
  it.each(['/', '/docs', '/openapi.json', '/changelog'])('%s needs HTTPS and no key', async url => {
    const { app } = application()
    const plain = await app.inject({ url, remoteAddress: '192.0.2.1' })
    expect([plain.statusCode, plain.json().error.code]).toEqual([403, 'https_required'])
    const secure = await app.inject({
      url, remoteAddress: '10.1.2.3', headers: { 'x-forwarded-proto': 'https' },
    })
    expect([secure.statusCode, secure.headers['strict-transport-security']])
      .toEqual([200, 'max-age=31536000'])
  })
})

describe('a path with a slash at its end', () => {
  it.each(['/api/v1/balance', `/api/v1/jobs/${JOB_ID}`, '/api/v1/jobs', '/docs'])(
    '%s/ is the same resource', async url => {
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
})

describe('a route behind the guard', () => {
  it('has the caller and the headers of every answer, an open one no caller', async () => {
    const deps = doubles()
    const app = Fastify({ genReqId: () => 'req_1' })
    answerFailures(app, deps)
    readClientAddresses(app, networksOf([]))
    guardRoutes(app, deps, { ...settings, limit: createPublicLimit(CONNECTION_DEFAULTS) })
    app.get('/mine', { config: { scope: 'jobs:read' } }, async request => callerOf(request))
    app.get('/open', async request => callerOf(request))
    const mine = await app.inject({ url: '/mine', headers: { authorization: 'Bearer reader' } })
    expect(mine.json()).toEqual({
      org: 'org_01', tenant: 'org_01.live', mode: 'live', scopes: ['jobs:read'], keyId: KEY_ID,
    })
    expect(mine.headers).toMatchObject({
      'x-request-id': 'req_1',
      'api-version': '2026-08-11',
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
    })
    expect((await app.inject('/open')).statusCode).toBe(500)
    const request = { caller: undefined } as FastifyRequest
    expect(() => callerOf(request)).toThrow('The route has no scope, so it has no caller.')
  })
})

type Peer = {
  readonly remoteAddress?: string
  readonly encrypted?: boolean
  readonly proto?: string
}

const requestFrom = ({ proto, ...socket }: Peer) => ({
  raw: { socket, headers: proto === undefined ? {} : { 'x-forwarded-proto': proto } },
}) as unknown as FastifyRequest

let headers: object = {}
const reply = { headers: (given: object) => { headers = given } } as unknown as FastifyReply

describe('the rule of HTTPS', () => {
  const requireHttps = createHttpsCheck(['192.0.2.7', '2001:db8::/32'])

  it.each<[what: string, peer: Peer]>([
    ['TLS from anywhere', { remoteAddress: '198.51.100.1', encrypted: true }],
    ['a proxy by its address', { remoteAddress: '192.0.2.7', proto: 'https' }],
    ['a proxy by its network, IPv6', { remoteAddress: '2001:db8:1::5', proto: 'https' }],
  ])('lets %s through', (_, peer) => {
    headers = {}
    expect(() => requireHttps(requestFrom(peer), reply)).not.toThrow()
    expect(headers).toEqual({ 'strict-transport-security': 'max-age=31536000' })
  })

  it.each<[what: string, peer: Peer]>([
    ['the neighbour of a proxy', { remoteAddress: '192.0.2.8', proto: 'https' }],
    ['another IPv6 network', { remoteAddress: '2001:db9::1', proto: 'https' }],
    ['a peer without an address', {}],
    ['a socket that is not encrypted', { remoteAddress: '198.51.100.1', encrypted: false }],
  ])('stops %s', (_, peer) => {
    expect(() => requireHttps(requestFrom(peer), reply))
      .toThrow(expect.objectContaining({ fault: { code: 'https_required' } }))
  })

  it('lets this machine through without TLS, and promises browsers nothing', () => {
    headers = {}
    expect(() => requireHttps(requestFrom({ remoteAddress: '127.0.0.1' }), reply)).not.toThrow()
    expect(headers).toEqual({})
  })

  it('names the proxy that is no address', () => {
    expect(() => createHttpsCheck(['10.0.0.0/8', 'proxy']))
      .toThrow('TRUSTED_PROXIES: "proxy" is not an address or network')
  })
})
