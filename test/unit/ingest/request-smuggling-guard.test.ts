import { once } from 'node:events'
import { connect } from 'node:net'
import Fastify, { type FastifyInstance } from 'fastify'
import { afterEach, describe, expect, it } from 'vitest'
import {
  CONNECTION_DEFAULTS, frameworkLimits,
} from '../../../services/runtime/platform/http-server.ts'
import { ApiException } from '../../../services/ingest/errors.ts'
import { checkRequestSmuggling } from '../../../services/ingest/request-smuggling-guard.ts'
import { sendError } from '../../../services/ingest/response.ts'

const apps: FastifyInstance[] = []
afterEach(async () => { await Promise.all(apps.splice(0).map(app => app.close())) })

/** A server with one route, which records the requests that reached it. */
async function listening (mostRequests = 100) {
  const app = Fastify(frameworkLimits(CONNECTION_DEFAULTS))
  apps.push(app)
  const reached: string[] = []
  app.setErrorHandler((error, _request, reply) => {
    if (!(error instanceof ApiException)) throw error
    return sendError(reply, error.fault)
  })
  checkRequestSmuggling(app, mostRequests)
  app.all('/*', async request => {
    reached.push(request.url)
    return 'done'
  })
  const port = Number(new URL(await app.listen({ port: 0, host: '127.0.0.1' })).port)
  return { reached, sent: (...lines: readonly string[]) => sent(port, lines) }
}

/** Sends lines as they are; returns everything received until the server closes. */
async function sent (port: number, lines: readonly string[]): Promise<string> {
  const socket = connect(port, '127.0.0.1')
  let answer = ''
  socket.on('data', data => { answer += data.toString() })
  socket.on('error', () => {})
  socket.write(lines.map(line => `${line}\r\n`).join(''))
  await once(socket, 'close')
  return answer
}

const statuses = (answer: string) =>
  [...answer.matchAll(/HTTP\/1\.1 (\d+) /g)].map(([, status]) => Number(status))
const faultOf = (answer: string) => {
  const { error } = JSON.parse(answer.slice(answer.indexOf('{'))) as
    { error: { code: string, param?: string, message: string } }
  return [error.code, error.param, error.message]
}
const CLOSE = 'connection: close'

describe('a request that two servers could take for different ones', () => {
  it.each([
    ['no host', ['GET /a HTTP/1.1', CLOSE, '']],
    ['two hosts', ['GET /a HTTP/1.1', 'host: x', 'Host: y', CLOSE, '']],
    ['the same host twice', ['GET /a HTTP/1.1', 'host: x', 'HOST: x', CLOSE, '']],
    ['two hosts of 1.0', ['GET /a HTTP/1.0', 'host: x', 'host: y', '']],
  ])('as it has %s is refused before anything is done', async (_, lines) => {
    const { reached, sent } = await listening()
    const answer = await sent(...lines)
    expect(statuses(answer)).toEqual([400])
    expect(faultOf(answer)).toEqual(['invalid_request', 'Host', 'Send exactly one Host header.'])
    expect(answer).toMatch(/^cache-control: no-store\r$/m)
    expect(answer).toMatch(/^x-request-id: \S+\r$/m)
    expect(reached).toEqual([])
  })

  it.each(['gzip, chunked', 'identity', 'chunked, chunked', 'gzip'])(
    'as its transfer coding is %s is never carried out', async coding => {
      const { reached, sent } = await listening()
      const answer = await sent(
        'POST /a HTTP/1.1', 'host: x', `transfer-encoding: ${coding}`, CLOSE, '', '0', '')
      expect(statuses(answer)).toEqual([400])
      expect(reached).toEqual([])
    })

  it('as it has chunks, which came with HTTP/1.1, is refused of HTTP/1.0', async () => {
    const { reached, sent } = await listening()
    const answer = await sent(
      'POST /a HTTP/1.0', 'host: x', 'transfer-encoding: chunked', '', '0', '')
    expect(statuses(answer)).toEqual([400])
    expect(faultOf(answer)).toEqual(['invalid_request', 'Transfer-Encoding',
      'Transfer-Encoding can only be chunked, over HTTP/1.1.'])
    expect(reached).toEqual([])
  })

  it.each(['*', 'ftp://x/a'])('as its address is %s, is not a path of the API', async address => {
    const { reached, sent } = await listening()
    const answer = await sent(`OPTIONS ${address} HTTP/1.1`, 'host: x', CLOSE, '')
    expect(statuses(answer)).toEqual([404])
    expect(reached).toEqual([])
  })

  it('as it has more than 200 headers, gets an error that says so', async () => {
    const { reached, sent } = await listening()
    const headers = (count: number) =>
      ['host: x', CLOSE, ...Array.from({ length: count - 2 }, (_, index) => `a${index}: b`)]
    const answer = await sent('GET /a HTTP/1.1', ...headers(201), '')
    expect(statuses(answer)).toEqual([431])
    expect(faultOf(answer)).toEqual(['headers_too_large', undefined,
      'The request has more than 200 headers. Send fewer.'])
    expect(statuses(await sent('GET /b HTTP/1.1', ...headers(200), ''))).toEqual([200])
    expect(reached).toEqual(['/b'])
  })
})

describe('a request that is clear', () => {
  it.each([
    ['one host', ['GET /a HTTP/1.1', 'HOST: x', CLOSE, '']],
    ['HTTP/1.0 and no host', ['GET /a HTTP/1.0', '']],
    ['a whole address', ['GET http://x/a HTTP/1.1', 'host: x', CLOSE, '']],
    ['chunks', ['GET /a HTTP/1.1', 'host: x', 'transfer-encoding:  Chunked ', CLOSE, '', '0', '']],
  ])('by %s is carried out', async (_, lines) => {
    const { reached, sent } = await listening()
    expect(statuses(await sent(...lines))).toEqual([200])
    expect(reached).toHaveLength(1)
  })
})

describe('a connection', () => {
  it('is closed after so many requests, and those sent ahead are not carried out', async () => {
    const { reached, sent } = await listening(3)
    const one = (path: string) => [`GET ${path} HTTP/1.1`, 'host: x', '']
    const answer = await sent(...['/1', '/2', '/3', '/4', '/5'].flatMap(one))
    expect(reached).toEqual(['/1', '/2', '/3'])
    expect(statuses(answer).slice(0, 3)).toEqual([200, 200, 200])
    expect(answer.match(/^connection: close\r$/gim)?.length).toBeGreaterThanOrEqual(1)
    // Each connection counts for itself.
    expect(statuses(await sent('GET /6 HTTP/1.1', 'host: x', CLOSE, ''))).toEqual([200])
    expect(reached).toEqual(['/1', '/2', '/3', '/6'])
  })
})
