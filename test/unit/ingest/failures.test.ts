import type { Socket } from 'node:net'
import Fastify, { type FastifyBaseLogger } from 'fastify'
import { describe, expect, it } from 'vitest'
import { OrganizationErasedError } from '../../../services/accounts/organization-key-store.ts'
import { answerFailures, createSocketFailure } from '../../../services/ingest/failures.ts'
import {
  LostResultsError, MissingResultsError,
} from '../../../services/jobs/results/read-chunks.ts'
import { NotSubmittedError } from '../../../services/jobs/submit.ts'
import { FatalError } from '../../../services/runtime/platform/errors.ts'
import { createLog } from '../../../services/runtime/platform/log.ts'
import { createTestApp, doubles, good, outage, settings } from './doubles.ts'

/** The outcome of a socket on which something failed. */
function socketAfter (code: string, writable = true): readonly string[] {
  const calls: string[] = []
  const socket = {
    writable,
    on: () => {},
    once: (_event: string, closed: () => void) => { closed() },
    end: (text: string) => { calls.push(text) },
    destroy: () => { calls.push('destroyed') },
  }
  const fail = createSocketFailure(() => 'req_1')
  fail(Object.assign(new Error(code), { code }), socket as unknown as Socket)
  return calls
}

describe('a failure on the bare socket', () => {
  it('is answered in the form of all errors', () => {
    const body = '{"error":{"type":"invalid_request","code":"request_timeout","message":"The ' +
      'request did not arrive in time. Send it again.","request_id":"req_1"}}'
    expect(socketAfter('ERR_HTTP_REQUEST_TIMEOUT')).toEqual([[
      'HTTP/1.1 408 Request Timeout',
      'Content-Type: application/json; charset=utf-8',
      `Content-Length: ${body.length}`,
      'X-Request-Id: req_1',
      'API-Version: 2026-08-11',
      'Connection: close',
      '',
      body,
    ].join('\r\n')])
  })

  it.each([
    ['HPE_CHUNK_EXTENSIONS_OVERFLOW', 'HTTP/1.1 413 Payload Too Large'],
    ['HPE_INVALID_METHOD', 'HTTP/1.1 400 Bad Request'],
  ])('%s is answered with %s', (code, line) => {
    expect(socketAfter(code)[0]?.split('\r\n')[0]).toBe(line)
  })

  it('gets no response on a closed connection', () => {
    expect(socketAfter('ECONNRESET')).toEqual(['destroyed'])
    expect(socketAfter('HPE_HEADER_OVERFLOW', false)).toEqual(['destroyed'])
  })
})

describe('a failure in a handler', () => {
  it.each([
    [outage, 503, 'temporarily_unavailable'],
    [new Error('an internal fault'), 500, 'internal'],
    [new LostResultsError('no key'), 410, 'results_expired'],
    [new OrganizationErasedError('org_1'), 401, 'revoked_key'],
    [new MissingResultsError('no block'), 500, 'internal'],
    [Object.assign(new Error('no such path'), { code: 'FST_ERR_BAD_URL' }), 404, 'not_found'],
  ] as const)('%s is answered with %i', async (error, status, code) => {
    const app = Fastify()
    answerFailures(app, doubles())
    app.get('/', () => Promise.reject(error))
    const answer = await app.inject('/')
    expect([answer.statusCode, answer.json().error.code]).toEqual([status, code])
  })

  it('of an erased organization is answered with what is true for it', async () => {
    const app = Fastify()
    answerFailures(app, doubles())
    app.get('/', () => Promise.reject(new OrganizationErasedError('org_1')))
    expect((await app.inject('/')).json().error.message).toBe('The API key was revoked, or its ' +
      'organization was erased. If you can still sign in to the workspace, create a new one there.')
  })

  it('without a data key is answered with 503, and logs each cause once a minute', async () => {
    const lines: string[] = []
    const destination = { write: (line: string) => { lines.push(line) } }
    const log = createLog('ingest', { level: 'error', destination }) as FastifyBaseLogger
    const lost = new FatalError('RESULTS_ROOT_KEYS lacks key "1", which wraps a key in use')
    const causes: Error[] = [lost, lost, outage]
    const fail = () => Promise.reject(
      new NotSubmittedError('cannot make a key', { cause: causes.shift() }))
    const app = createTestApp({ deps: doubles({ submit: fail, quote: fail }), settings, log })
    for (const path of ['jobs', 'verifications', 'quotes']) {
      const answer = await app.inject({
        method: 'POST',
        url: `/api/v1/${path}`,
        headers: { authorization: 'Bearer live' },
        payload: good,
      })
      expect([answer.statusCode, answer.headers['retry-after']]).toEqual([503, '5'])
      expect(answer.json().error).toMatchObject({
        type: 'unavailable',
        code: 'temporarily_unavailable',
        message: expect.stringContaining('This request created no job, and nothing was reserved'),
      })
    }
    const logged = lines.map(line => JSON.parse(line))
    expect(logged).toMatchObject([lost, outage].map(({ name: type, message }) => ({
      level: 50,
      msg: 'jobs and quotes are refused',
      err: { type: 'NotSubmittedError', cause: { type, message } },
    })))
  })

  it('is logged with method, route, status and code, and no path or query', async () => {
    const lines: string[] = []
    const destination = { write: (line: string) => { lines.push(line) } }
    const app = Fastify({
      loggerInstance: createLog('ingest', { level: 'error', destination }) as FastifyBaseLogger,
    })
    answerFailures(app, doubles())
    app.get('/contacts/:contact', () => Promise.reject(outage))
    await app.inject('/contacts/jane@example.org?phone=+12127365000')
    expect(lines.map(line => JSON.parse(line))).toEqual([expect.objectContaining({
      msg: 'request failed',
      method: 'GET',
      route: '/contacts/:contact',
      status: 503,
      code: 'temporarily_unavailable',
    })])
    expect(lines[0]).not.toMatch(/jane|12127365000/)
  })
})
