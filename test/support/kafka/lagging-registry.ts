import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export type LaggingRegistry = {
  readonly url: string
  /** How often it answered a request for an existing schema with 404. */
  readonly denials: () => number
  /** From now on it has all schemas. */
  readonly catchUp: () => void
  readonly stop: () => void
}

const NOT_FOUND = JSON.stringify({ error_code: 40403, message: 'Schema not found' })

/** A copy of the registry that does not have the schemas above an id yet. */
export async function startLaggingRegistry (url: string, newestId: number):
Promise<LaggingRegistry> {
  let denials = 0
  let isLagging = true
  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    const id = Number(/\/schemas\/ids\/(\d+)/.exec(request.url ?? '')?.[1] ?? 0)
    if (isLagging && id > newestId) {
      denials++
      response.writeHead(404, { 'content-type': 'application/json' }).end(NOT_FOUND)
      return
    }
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const { method = 'GET' } = request
    const found = await fetch(`${url}${request.url}`, {
      method,
      headers: { 'content-type': request.headers['content-type'] ?? 'application/json' },
      ...chunks.length > 0 && { body: Buffer.concat(chunks) },
    })
    response.writeHead(found.status, { 'content-type': 'application/json' })
      .end(await found.text())
  }
  const server = createServer((request, response) => {
    answer(request, response).catch(() => response.destroy())
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    denials: () => denials,
    catchUp: () => { isLagging = false },
    stop: () => {
      server.closeAllConnections()
      server.close()
    },
  }
}
