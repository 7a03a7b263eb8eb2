import { once } from 'node:events'
import { describe, expect, it } from 'vitest'
import { CONNECTION_DEFAULTS } from '../../../services/runtime/platform/http-server.ts'
import type { IngestDeps } from '../../../services/ingest/deps.ts'
import { application, createTestApp, doubles, listen, settings, talk } from './doubles.ts'
import { eventually } from '../../support/eventually.ts'

async function start (more: Partial<typeof CONNECTION_DEFAULTS>) {
  const connection = { ...CONNECTION_DEFAULTS, ...more }
  const app = createTestApp({ deps: doubles(), settings, connection })
  // Node waits a second longer than it announces to clients.
  app.server.keepAliveTimeoutBuffer = 0
  return await listen(app)
}

describe('connections', () => {
  it('are closed when idle after a request', async () => {
    const port = await start({ KEEP_ALIVE_TIMEOUT_MS: 50 })
    const { answer } = talk(port, 'GET / HTTP/1.1\r\nhost: x\r\n\r\n')
    expect((await answer()).match(/HTTP\/1\.1 200 OK/g)).toHaveLength(1)
  })

  it('that never send a byte are closed', async () => {
    expect(await talk(await start({ CONNECTION_TIMEOUT_MS: 50 })).answer()).toBe('')
  })

  it('above the number there may be are closed', async () => {
    const port = await start({ MAX_CONNECTIONS: 1 })
    const first = talk(port)
    await once(first.socket, 'connect')
    expect(await talk(port).answer()).toBe('')
    first.socket.destroy()
  })
})

it('a request under way while the server stops ' +
  'is answered, and its connection closed, so that it does not delay the stop', async () => {
  const balance = Promise.withResolvers<Awaited<ReturnType<IngestDeps['balance']>>>()
  const asked = Promise.withResolvers<void>()
  const { app } = application({
    balance: async () => {
      asked.resolve()
      return await balance.promise
    },
  })
  const { answer } = talk(await listen(app),
    'GET /api/v1/balance HTTP/1.1\r\nhost: x\r\nauthorization: Bearer live\r\n\r\n')
  await asked.promise
  const stopped = app.close()
  const { server } = app
  await eventually(() => expect(server.listening).toBe(false))
  balance.resolve(await doubles().balance('org_1.live'))
  expect(await answer()).toMatch(/^HTTP\/1\.1 200 [^]*\r\nconnection: close\r\n/i)
  await stopped
})
