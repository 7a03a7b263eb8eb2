import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterAll } from 'vitest'

/** What a receiver of webhooks got, and when. */
export type Received = {
  readonly path: string
  readonly headers: IncomingMessage['headers']
  readonly body: string
  readonly atMs: number
}

type Behave = (response: ServerResponse, received: Received, count: number) => void

export type Receiver = Awaited<ReturnType<typeof startReceiver>>

/** A real HTTP server on this machine; it ends with the test file, or before by `stop`. */
export async function startReceiver (
  behave: Behave = response => response.end(), host = '127.0.0.1', atPort = 0
) {
  const received: Received[] = []
  const heard = new EventTarget()
  let connections = 0
  const take = async (request: IncomingMessage, response: ServerResponse) => {
    const { url: path = '', headers } = request
    const one = { path, headers, body: await text(request), atMs: Date.now() }
    received.push(one)
    behave(response, one, received.filter(other => other.path === path).length)
    heard.dispatchEvent(new Event('request'))
  }
  const server = createServer((request, response) => {
    take(request, response).catch(() => response.destroy())
  })
  server.on('connection', () => { connections += 1 })
  server.listen(atPort, host)
  await once(server, 'listening')
  const stop = async () => {
    server.closeAllConnections()
    await new Promise(resolve => { server.close(resolve) })
  }
  afterAll(stop)
  /** Resolves when this many requests with this path have come. */
  const until = async (count: number, path?: string): Promise<readonly Received[]> => {
    for (;;) {
      const found = received.filter(one => path === undefined || one.path === path)
      if (found.length >= count) return found
      await new Promise(resolve => heard.addEventListener('request', resolve, { once: true }))
    }
  }
  const { port } = server.address() as AddressInfo
  return {
    port,
    received: received as readonly Received[],
    /** Connections that were made, whether a request came over them or not. */
    connections: () => connections,
    until,
    stop,
  }
}
