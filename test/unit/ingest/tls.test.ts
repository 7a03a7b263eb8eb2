import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { get } from 'node:https'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { connect as connectTls, type TLSSocket } from 'node:tls'
import type { IncomingMessage } from 'node:http'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { CONNECTION_DEFAULTS } from '../../../services/runtime/platform/http-server.ts'
import { listenTls, type TlsListener } from '../../../services/ingest/tls.ts'
import { selfSigned } from '../../../deploy/local/certificate.ts'
import { application, good, JOB_ID } from './doubles.ts'
import { newFolder } from '../../support/folder.ts'

let folder: string
let settings: Parameters<typeof listenTls>[1]['settings']
const listeners: TlsListener[] = []
const ends: (() => void)[] = []
const said: string[] = []
const log = {
  info: (_more: object, line: string) => { said.push(line) },
  error: (_more: object, line: string) => { said.push(line) },
} as unknown as Parameters<typeof listenTls>[1]['log']

beforeEach(() => {
  folder = newFolder('verification-jobs-tls-')
  said.length = 0
  settings = {
    ...CONNECTION_DEFAULTS,
    HOST: '127.0.0.1',
    TRUSTED_PROXIES: [],
    PORT_HTTPS: 0,
    TLS_CERT_FILE: `${folder}/cert.pem`,
    TLS_KEY_FILE: `${folder}/key.pem`,
    TLS_RELOAD_MS: 20,
  }
})
afterEach(async () => {
  for (const end of ends.splice(0)) end()
  await Promise.all(listeners.splice(0).map(listener => listener.stop()))
})

function write ({ cert, key }: { readonly cert: string, readonly key: string }): string {
  writeFileSync(settings.TLS_CERT_FILE, cert)
  writeFileSync(settings.TLS_KEY_FILE, key)
  return cert
}

it('TLS reports a port that is in use', async () => {
  write(selfSigned('first'))
  const port = await listen()
  await expect(listen({ PORT_HTTPS: port })).rejects.toThrow(
    new RegExp(`^port ${port} is in use: .*set PORT_HTTPS to another port`))
})

async function listen (
  more: Partial<typeof settings> = {}, { app } = application()
): Promise<number> {
  await app.ready()
  const listener = await listenTls(app, { settings: { ...settings, ...more }, log })
  if (listener === undefined) return 0
  listeners.push(listener)
  return listener.port
}

async function ask (port: number, ca: string) {
  const headers = { authorization: 'Bearer live' }
  const sent = get({
    host: '127.0.0.1', port, path: `/api/v1/jobs/${JOB_ID}`, headers, ca, agent: false,
  })
  const [answer] = await once(sent, 'response') as [IncomingMessage]
  const name = (answer.socket as TLSSocket).getPeerCertificate().subject.CN
  answer.resume()
  await once(answer, 'end')
  return [answer.statusCode, name]
}

describe('the TLS listener', () => {
  it('closes a connection whose client leaves in the middle of the handshake', async () => {
    write(selfSigned('first'))
    const port = await listen()
    const ended = async (handshake: string) => {
      const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
      await once(socket, 'connect')
      socket.resume()
      if (handshake === 'left') socket.end(Buffer.from('160301', 'hex'))
      ends.push(() => socket.destroy())
      return { end: once(socket, 'end').then(() => handshake) }
    }
    const silent = await ended('silent')
    const left = await ended('left')
    expect(await Promise.race([silent.end, left.end])).toBe('left')
  })

  it('answers a complete request whose client half-closes the connection', async () => {
    const ca = write(selfSigned('half'))
    const api = application()
    api.app.addHook('preHandler', async ({ raw: { socket } }) => {
      if (!socket.readableEnded) await once(socket, 'end')
    })
    const port = await listen({}, api)
    const options = {
      port, host: '127.0.0.1', ca, allowHalfOpen: true, checkServerIdentity: () => undefined,
    }
    const socket = connectTls(options)
    const answer = text(socket)
    const body = JSON.stringify(good)
    socket.end(['POST /api/v1/jobs HTTP/1.1', 'host: x', 'authorization: Bearer live',
      'content-type: application/json', `content-length: ${body.length}`, '', body].join('\r\n'))
    expect(await answer).toMatch(/^HTTP\/1\.1 202 Accepted\r\n/)
    expect(api.calls.submissions).toMatchObject([good])
  })

  it('loads a renewed certificate by itself, and keeps it while new files do not match',
    async () => {
      const old = write(selfSigned('first'))
      const port = await listen()
      expect(await ask(port, old)).toEqual([200, 'first'])
      const renewed = write(selfSigned('second'))
      await expect.poll(() => ask(port, renewed).catch(() => [])).toEqual([200, 'second'])
      expect(said).toContain('certificate loaded')
      writeFileSync(settings.TLS_CERT_FILE, selfSigned('third').cert)
      await expect.poll(() => said)
        .toContain('failed to load the renewed certificate, keeping the old one')
      expect(await ask(port, renewed)).toEqual([200, 'second'])
    })

  it('closes connections with plain HTTP or an old TLS version', async () => {
    const cert = write(selfSigned('first'))
    const port = await listen()
    const plain = connect(port, '127.0.0.1')
    plain.on('error', () => {})
    plain.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n')
    await once(plain, 'close')
    const old = connectTls({ port, host: '127.0.0.1', ca: cert, maxVersion: 'TLSv1.1' })
    const [error] = await once(old, 'error') as [Error]
    expect(error.message).toMatch(/protocol/i)
  })

  it('does not start without a certificate, and rejects invalid files', async () => {
    expect(await listen({ TLS_CERT_FILE: '', TLS_KEY_FILE: '' })).toBe(0)
    await expect(listen({ TLS_KEY_FILE: '' })).rejects
      .toThrow('Set both TLS_CERT_FILE and TLS_KEY_FILE, or neither.')
    await expect(listen()).rejects.toThrow(/cannot be used \(ENOENT.*Use PEM files/)
    write({ ...selfSigned('a'), key: selfSigned('b').key })
    await expect(listen()).rejects.toThrow(/cannot be used \(.*mismatch/)
  })
})
