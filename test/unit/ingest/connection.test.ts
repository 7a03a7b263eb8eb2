import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import type { FastifyInstance } from 'fastify'
import { afterEach, describe, expect, it } from 'vitest'
import { CONNECTION_DEFAULTS } from '../../../services/runtime/platform/http-server.ts'
import type { IngestDeps } from '../../../services/ingest/deps.ts'
import { createTestApp, doubles, settings } from './doubles.ts'
import { eventually } from '../../support/eventually.ts'

let app: FastifyInstance | undefined
afterEach(() => app?.close())

async function listen (more: Partial<typeof CONNECTION_DEFAULTS>) {
  const connection = { ...CONNECTION_DEFAULTS, ...more }
  app = createTestApp({ deps: doubles(), settings, connection })
  // Node waits a second longer than it announces to clients.
  app.server.keepAliveTimeoutBuffer = 0
  return Number(new URL(await app.listen({ port: 0, host: '127.0.0.1' })).port)
}

/** Opens a connection; what comes back until its end is awaited by `answer`. */
function open (port: number): { readonly socket: Socket, readonly answer: () => Promise<string> } {
  const socket = connect(port, '127.0.0.1')
  let text = ''
  socket.on('data', data => { text += data.toString() })
  socket.on('error', () => {})
  const closed = once(socket, 'close')
  return { socket, answer: async () => { await closed; return text } }
}

describe('connections', () => {
  const get = 'GET / HTTP/1.1\r\nhost: x\r\n\r\n'

  it('are closed when idle after a request', async () => {
    const { socket, answer } = open(await listen({ KEEP_ALIVE_TIMEOUT_MS: 50 }))
    socket.write(get)
    expect((await answer()).match(/HTTP\/1\.1 200 OK/g)).toHaveLength(1)
  })

  it('that never send a byte are closed', async () => {
    expect(await open(await listen({ CONNECTION_TIMEOUT_MS: 50 })).answer()).toBe('')
  })

  it('above the number there may be are closed', async () => {
    const port = await listen({ MAX_CONNECTIONS: 1 })
    const first = open(port)
    await once(first.socket, 'connect')
    expect(await open(port).answer()).toBe('')
    first.socket.destroy()
  })
})

describe('a request under way while the server stops', () => {
  it('is answered, and its connection closed, so that it does not delay the stop', async () => {
    const balance = Promise.withResolvers<Awaited<ReturnType<IngestDeps['balance']>>>()
    const asked = Promise.withResolvers<void>()
    const deps = doubles({
      balance: async () => {
        asked.resolve()
        return await balance.promise
      },
    })
    app = createTestApp({ deps, settings })
    const { port } = new URL(await app.listen({ port: 0, host: '127.0.0.1' }))
    const { socket, answer } = open(Number(port))
    socket.write('GET /api/v1/balance HTTP/1.1\r\nhost: x\r\nauthorization: Bearer live\r\n\r\n')
    await asked.promise
    const stopped = app.close()
    const { server } = app
    await eventually(() => expect(server.listening).toBe(false))
    balance.resolve(await doubles().balance('org_1.live'))
    expect(await answer()).toMatch(/^HTTP\/1\.1 200 [^]*\r\nconnection: close\r\n/i)
    await stopped
  })
})
