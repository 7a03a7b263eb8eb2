import { once } from 'node:events'
import { connect } from 'node:net'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { FastifyInstance } from 'fastify'
import { application, JOB_ID } from './doubles.ts'

let app: FastifyInstance
let port: number
beforeEach(async () => {
  app = application().app
  port = Number(new URL(await app.listen({ port: 0, host: '127.0.0.1' })).port)
})
afterEach(() => app.close())

/** Sends raw bytes and returns everything received until the server closes. */
async function sent (...pieces: readonly (string | Buffer)[]): Promise<string> {
  const socket = connect(port, '127.0.0.1')
  let answer = ''
  socket.on('data', data => { answer += data.toString() })
  socket.on('error', () => {})
  for (const piece of pieces) socket.write(piece)
  await once(socket, 'close')
  return answer
}

const codeOf = (answer: string) => /"code":"(\w+)"/.exec(answer)?.[1]
const statusOf = (answer: string) => Number(answer.split(' ')[1])
const head = (line: string, ...headers: readonly string[]) =>
  [line, 'host: x', 'connection: close', ...headers, '', ''].join('\r\n')
const postHead = (...headers: readonly string[]) => head('POST /api/v1/jobs HTTP/1.1',
  'authorization: Bearer live', 'content-type: application/json', ...headers)

describe('bytes on a socket', () => {
  it('that are not HTTP get 400 in the form of all errors', async () => {
    const answer = await sent('hello\r\n\r\n')
    expect([statusOf(answer), codeOf(answer)]).toEqual([400, 'invalid_request'])
    expect(answer).toMatch(/^X-Request-Id: req_\w{26}\r$/m)
  })

  it('with headers of 100 kB get 431', async () => {
    const answer = await sent(
      head(`GET /api/v1/jobs/${JOB_ID} HTTP/1.1`, `x: ${'y'.repeat(100_000)}`))
    expect([statusOf(answer), codeOf(answer)]).toEqual([431, 'headers_too_large'])
  })

  it('with both a length and chunks get 400', async () => {
    const answer = await sent(
      postHead('content-length: 5', 'transfer-encoding: chunked'), '0\r\n\r\n')
    expect([statusOf(answer), codeOf(answer)]).toEqual([400, 'invalid_request'])
  })

  it('with chunks of garbage get 400', async () => {
    const answer = await sent(postHead('transfer-encoding: chunked'), 'zz\r\nhello\r\n')
    expect(statusOf(answer)).toBe(400)
  })

  it('that announce 40 MB get 413 before they are sent', async () => {
    const answer = await sent(postHead('content-length: 40000000'))
    expect([statusOf(answer), codeOf(answer)]).toEqual([413, 'body_too_large'])
  })

  it('with two keys get 401', async () => {
    const answer = await sent(head(`GET /api/v1/jobs/${JOB_ID} HTTP/1.1`,
      'authorization: Bearer live', 'authorization: Bearer live'))
    expect([statusOf(answer), codeOf(answer)]).toEqual([401, 'invalid_key'])
  })

  it('with two Idempotency-Keys get 400', async () => {
    const key = 'idempotency-key: 7f3d2c1b-0a9e-4d8c-b7a6-5f4e3d2c1b0a'
    const body = '{"service":"phone-validation","inputs":["1"]}'
    const answer = await sent(postHead(key, key, `content-length: ${body.length}`), body)
    expect(codeOf(answer)).toBe('invalid_idempotency_key')
  })

  it.each([
    ['HTTP/1.0', head(`GET /api/v1/jobs/${JOB_ID} HTTP/1.0`, 'authorization: Bearer live'), 200],
    ['a whole address', head('GET http://other.example/api/v1/jobs HTTP/1.1'), 401],
    ['a NUL in the path', head('GET /api/v1/\u0000 HTTP/1.1'), 400],
  ])('%s', async (_, text, status) => {
    expect(statusOf(await sent(text))).toBe(status)
  })

  it('have a minute to arrive, their headers ten seconds', () => {
    const { requestTimeout, headersTimeout } = app.server
    expect([requestTimeout, headersTimeout]).toEqual([60_000, 10_000])
  })
})
