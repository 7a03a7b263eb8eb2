import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { once } from 'node:events'
import { json } from 'node:stream/consumers'
import { listen } from '../support/listen.ts'

/** How a receiver of webhooks behaves; the first part of its path. */
export type Manner = 'well' | 'flaky'

export type Receiver = Awaited<ReturnType<typeof startReceiver>>

const MANNERS: Readonly<Record<Manner, (response: ServerResponse, count: number) => void>> = {
  well: response => response.end(),
  flaky: (response, count) => response.writeHead(count % 3 === 0 ? 200 : 503).end(),
}

/** A server of webhooks of every manner, which notes what comes. */
export async function startReceiver () {
  /** Ids of the events that came, by the job they speak of. */
  const events = new Map<string, Set<string>>()
  const counts = new Map<string, number>()
  const take = async (request: IncomingMessage, response: ServerResponse) => {
    const [, manner] = (request.url ?? '').split('/')
    const { id, data } = await json(request) as { id: string, data: { id: string } }
    events.set(data.id, new Set([...events.get(data.id) ?? [], id]))
    const count = (counts.get(id) ?? 0) + 1
    counts.set(id, count)
    MANNERS[manner as Manner](response, count)
  }
  const server = createServer((request, response) => {
    take(request, response).catch(() => response.destroy())
  })
  const port = await listen(server)
  return {
    /** An address of that manner. */
    url: (manner: Manner) => `http://127.0.0.1:${port}/${manner}/`,
    events,
    close: async () => {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}
