import { once } from 'node:events'
import type { PassThrough } from 'node:stream'
import { setTimeout as turn } from 'node:timers/promises'
import { constants, gzipSync, zstdCompressSync } from 'node:zlib'
import Fastify, { type FastifyRequest } from 'fastify'
import { describe, expect, it, onTestFinished } from 'vitest'
import { createBodyBudget, reserveMemory } from '../../../services/ingest/body.ts'
import { application, good, listen, settings, talk } from './doubles.ts'
import { errorOf } from './file/support.ts'

const text = JSON.stringify(good)
const MIB = 1_024 * 1_024
const INVALID = [400, 'invalid_encoding', 'Content-Encoding']

it.each<[payload: string, error: object]>([
  ['{"a":', { message: 'The body is not valid JSON at line 1, column 6. Send one JSON object.' }],
  ['{\n  "secret text" 1}', {
    message: 'The body is not valid JSON at line 2, column 17. Send one JSON object.',
  }],
  ['{"a":1,"a":2}', { param: 'a', message: 'The field appears twice. Send it once.' }],
  ['['.repeat(9), { message: 'The body is nested too deeply.' }],
  ['{"a":{"b":{}}}', {
    param: 'a.b', message: 'a.b must be a plain value, not a list or an object.',
  }],
  ['{"a":{"__proto__":{}}}', {
    message: 'A field has the name __proto__ or constructor. Leave it out.',
  }],
  [`{"${'k'.repeat(300)}":1}`, {
    param: 'k'.repeat(100),
    message: 'The name of the field has more than 256 characters. Shorten it.',
  }],
  [`{"a":{${Array.from({ length: 61 }, (_, at) => `"${at}":1`).join()}}}`, {
    message: 'An object has more than 60 fields. Send fewer.',
  }],
])('a body of JSON %j is refused with its place', async (payload, error) => {
  const { post } = application()
  const answer = await post(payload)
  expect([answer.statusCode, answer.json().error]).toMatchObject([400, error])
})

function sender () {
  const { post, calls } = application({}, { bodyBudgetBytes: 1e9 })
  const send = (body: Buffer, coding: string) =>
    post(body, { headers: { 'content-encoding': coding } })
  return { send, calls }
}

describe.each([
  ['gzip', gzipSync], ['zstd', (bytes: Buffer | string) => zstdCompressSync(bytes)],
] as const)('a body with the coding %s', (coding, pack) => {
  it('is decompressed, also when it has several megabytes', async () => {
    const inputs = Array.from({ length: 100_000 }, (_, row) => `+1212${row}`)
    const { send, calls } = sender()
    expect((await send(pack(text), ` ${coding.toUpperCase()} `)).statusCode).toBe(202)
    expect((await send(pack(JSON.stringify({ ...good, inputs })), coding)).statusCode).toBe(202)
    expect(calls.submissions).toMatchObject([good, { inputs }])
  })

  it('that is cut anywhere, damaged or no such thing is rejected', async () => {
    const { send, calls } = sender()
    const body = pack(text)
    const cuts = Array.from(body, (_, length) => body.subarray(0, length))
    for (const cut of cuts) expect(errorOf(await send(cut, coding))).toEqual(INVALID)
    for (const other of [Buffer.from(text), Buffer.concat([body, Buffer.from('x')])]) {
      expect(errorOf(await send(other, coding))).toEqual(INVALID)
    }
    expect(errorOf(await send(pack(Buffer.of(0x22, 0xff, 0x22)), coding)))
      .toEqual([400, 'invalid_encoding', undefined])
    expect(calls.submissions).toEqual([])
  })
})

describe('a compressed body', () => {
  it('is decompressed no further than it is read', async () => {
    const app = Fastify()
    onTestFinished(() => app.close())
    const readFirstPiece = async (_request: FastifyRequest, body: unknown) => {
      const decoded = body as PassThrough
      await once(decoded.once('data', () => decoded.pause()), 'data')
      for (let turns = 0; turns < 50; turns++) await turn()
      return decoded.writableLength + decoded.readableLength
    }
    app.addContentTypeParser('application/json', readFirstPiece)
    app.post('/', reserveMemory(createBodyBudget(1e9), settings.bodyThroughput),
      async ({ body }) => ({ unreadBytes: body }))
    const answer = await app.inject({
      method: 'POST',
      url: '/',
      headers: { 'content-type': 'application/json', 'content-encoding': 'gzip' },
      payload: gzipSync(Buffer.alloc(100 * MIB)),
    })
    expect(answer.json().unreadBytes).toBeLessThan(MIB)
  })

  it('of two members of gzip is their sum, of two frames of zstd never read in part', async () => {
    const { send, calls } = sender()
    const members = Buffer.concat([gzipSync(text.slice(0, 9)), gzipSync(text.slice(9))])
    expect((await send(members, 'x-gzip')).statusCode).toBe(202)
    expect(calls.submissions).toMatchObject([good])
    const frames = Buffer.concat([zstdCompressSync(text), zstdCompressSync(' ')])
    expect(errorOf(await send(frames, 'zstd'))).toEqual(INVALID)
  })

  it('with a window of zstd above 8 MiB is rejected', async () => {
    const { send } = sender()
    const params = { [constants.ZSTD_c_windowLog]: 24, [constants.ZSTD_c_contentSizeFlag]: 0 }
    const body = zstdCompressSync(Buffer.alloc(17 * MIB, ' '), { params })
    expect(errorOf(await send(body, 'zstd'))).toEqual(INVALID)
  })

  it.each(['br', 'deflate', 'gzip, gzip', '', 'identity, gzip'])(
    'with the coding "%s" is 415 with those that are supported', async coding => {
      const answer = await sender().send(Buffer.from(text), coding)
      expect(errorOf(answer)).toEqual([415, 'unsupported_media_type', undefined])
      expect(answer.headers['accept-encoding']).toBe('gzip, zstd, identity')
    })
})

const post = (body: string, ...headers: readonly string[]) => [
  'POST /api/v1/jobs HTTP/1.1', 'host: x', 'authorization: Bearer live',
  'content-type: application/json', `content-length: ${body.length}`, ...headers, '', body,
].join('\r\n')

/** An API whose key lookup waits for `goOn`, and its submissions. */
async function serve (scope: 'jobs:write' | 'jobs:read' = 'jobs:write') {
  const waiting = Promise.withResolvers<void>()
  const lookupStarted = Promise.withResolvers<void>()
  const { app, calls: { submissions } } = application({
    findKey: async () => {
      lookupStarted.resolve()
      await waiting.promise
      const tenant = 'org_1.live'
      const key = { org: 'org_1', tenant, mode: 'live', scopes: [scope], keyId: 'k' } as const
      return { kind: 'ok', key }
    },
  })
  const port = await listen(app)
  const heard = (event: string) => new Promise<void>(resolve => {
    app.server.once('connection', socket => socket.once(event, resolve))
  })
  const [ended, closed] = [heard('end'), heard('close')]
  return { port, submissions, lookup: lookupStarted.promise, goOn: waiting.resolve, ended, closed }
}

describe('a request with a complete body', () => {
  it.each([['a small body', text], ['60 kB', text.padEnd(60_000)]])(
    'makes a job after the connection is reset: %s', async (_, body) => {
      const { port, submissions, lookup, goOn, closed } = await serve()
      const { socket } = talk(port)
      await new Promise<void>(resolve => { socket.write(post(body), () => resolve()) })
      await lookup
      socket.resetAndDestroy()
      await closed
      goOn()
      await expect.poll(() => submissions.length).toBe(1)
    })

  it('gets a response on a half-closed connection', async () => {
    const { port, goOn, ended } = await serve()
    const { socket, answer } = talk(port, '', { allowHalfOpen: true })
    socket.end(post(text))
    await ended
    await turn()
    goOn()
    expect(await answer()).toMatch(/^HTTP\/1\.1 202 Accepted\r\n/)
  })

  it('that is rejected before it is read leaves the connection usable', async () => {
    const { port, goOn } = await serve('jobs:read')
    goOn()
    const { socket, answer } = talk(port, post(text.padEnd(300_000)))
    socket.end(post(text, 'connection: close'))
    expect((await answer()).match(/HTTP\/1\.1 403/g)).toHaveLength(2)
  })
})
