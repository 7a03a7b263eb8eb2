import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { setTimeout as turn } from 'node:timers/promises'
import { connect as connectTls } from 'node:tls'
import Fastify from 'fastify'
import { afterEach, describe, expect, it } from 'vitest'
import { CONNECTION_DEFAULTS } from '../../../services/runtime/platform/http-server.ts'
import { listenTls } from '../../../services/ingest/tls.ts'
import { acceptCompleteBodies } from '../../../services/ingest/json-body.ts'
import { selfSigned } from '../../../deploy/local/certificate.ts'
import { application, good } from './doubles.ts'

const ends: (() => unknown)[] = []
afterEach(async () => { for (const end of ends.splice(0).toReversed()) await end() })

const body = JSON.stringify(good)
const post = (text: string, ...headers: readonly string[]) => [
  'POST /api/v1/jobs HTTP/1.1', 'host: x', 'authorization: Bearer live',
  'content-type: application/json', `content-length: ${text.length}`, ...headers, '', text,
].join('\r\n')

/** An API whose key lookup waits for `goOn`, and its submissions. */
async function listen () {
  const waiting = Promise.withResolvers<void>()
  const lookupStarted = Promise.withResolvers<void>()
  const { app, calls: { submissions } } = application({
    findKey: async () => {
      lookupStarted.resolve()
      await waiting.promise
      const tenant = 'org_1.live'
      const scopes = ['jobs:write'] as const
      return { kind: 'ok', key: { org: 'org_1', tenant, mode: 'live', scopes, keyId: 'key_1' } }
    },
  })
  const port = Number(new URL(await app.listen({ port: 0, host: '127.0.0.1' })).port)
  ends.push(() => app.close())
  const heard = (event: string) => new Promise<void>(resolve => {
    app.server.once('connection', socket => socket.once(event, resolve))
  })
  const [ended, closed] = [heard('end'), heard('close')]
  const [lookup, goOn] = [lookupStarted.promise, waiting.resolve]
  return { app, port, submissions, lookup, goOn, ended, closed }
}

function heardBy (socket: Socket): () => Promise<string> {
  let heard = ''
  socket.on('data', data => { heard += data.toString() })
  socket.on('error', () => {})
  const closed = once(socket, 'close')
  return async () => {
    await closed
    return heard
  }
}

describe('a request with a complete body', () => {
  it.each([['a small body', body], ['60 kB', body.padEnd(60_000)]])(
    'makes a job after the connection is reset: %s', async (_, text) => {
      const { port, submissions, lookup, goOn, closed } = await listen()
      const socket = connect(port, '127.0.0.1')
      await new Promise<void>(resolve => { socket.write(post(text), () => resolve()) })
      await lookup
      socket.resetAndDestroy()
      await closed
      goOn()
      await expect.poll(() => submissions.length).toBe(1)
    })

  it('creates a job after the client has disconnected', async () => {
    const { port, submissions, lookup, goOn, ended } = await listen()
    const socket = connect(port, '127.0.0.1')
    socket.write(post(body))
    await lookup
    socket.destroy()
    await ended
    await turn()
    goOn()
    await expect.poll(() => submissions.length).toBe(1)
  })

  it('gets a response on a half-closed connection', async () => {
    const { port, goOn, ended } = await listen()
    const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
    const heard = heardBy(socket)
    socket.end(post(body))
    await ended
    await turn()
    goOn()
    expect(await heard()).toMatch(/^HTTP\/1\.1 202 Accepted\r\n/)
  })

  it('gets a response on a half-closed TLS connection', async () => {
    const { app, lookup, goOn } = await listen()
    const folder = mkdtempSync(`${tmpdir()}/verification-jobs-half-open-`)
    ends.push(() => rmSync(folder, { recursive: true }))
    const { cert, key } = selfSigned('half')
    const [TLS_CERT_FILE, TLS_KEY_FILE] = [`${folder}/cert.pem`, `${folder}/key.pem`]
    writeFileSync(TLS_CERT_FILE, cert)
    writeFileSync(TLS_KEY_FILE, key)
    const listener = await listenTls(app, {
      settings: {
        ...CONNECTION_DEFAULTS,
        HOST: '127.0.0.1',
        TRUSTED_PROXIES: [],
        PORT_HTTPS: 0,
        TLS_CERT_FILE,
        TLS_KEY_FILE,
        TLS_RELOAD_MS: 3_600_000,
      },
      log: { info: () => {}, error: () => {} } as never,
    })
    ends.push(() => listener?.stop())
    const options = {
      port: listener?.port ?? 0,
      host: '127.0.0.1',
      ca: cert,
      allowHalfOpen: true,
      checkServerIdentity: () => undefined,
    }
    const socket = connectTls(options)
    const heard = heardBy(socket)
    socket.end(post(body))
    await once(socket, 'finish')
    await lookup
    await turn()
    goOn()
    expect(await heard()).toMatch(/^HTTP\/1\.1 202 Accepted\r\n/)
  })
})

describe('a truncated request', () => {
  it('creates no job', async () => {
    const { port, submissions, lookup, goOn, closed } = await listen()
    const socket = connect(port, '127.0.0.1')
    socket.write(post(body).slice(0, -1))
    await lookup
    socket.resetAndDestroy()
    await closed
    goOn()
    const next = connect(port, '127.0.0.1')
    const heard = heardBy(next)
    next.write(post(body, 'connection: close'))
    expect(await heard()).toMatch(/^HTTP\/1\.1 202 /)
    expect(submissions).toHaveLength(1)
  })
})

describe('a request that is rejected before its body is read', () => {
  it('leaves the connection usable', async () => {
    const app = Fastify()
    acceptCompleteBodies(app)
    app.post('/api/v1/jobs', {
      onRequest: async (_request, reply) => reply.code(401).send(),
    }, async () => 'the body was read')
    const port = Number(new URL(await app.listen({ port: 0, host: '127.0.0.1' })).port)
    ends.push(() => app.close())
    const socket = connect(port, '127.0.0.1')
    const heard = heardBy(socket)
    socket.write(post(body.padEnd(300_000)))
    socket.end(post(body, 'connection: close'))
    expect((await heard()).match(/HTTP\/1\.1 401/g)).toHaveLength(2)
  })
})
