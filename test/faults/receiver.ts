import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { once } from 'node:events'
import { json } from 'node:stream/consumers'
import { listen } from '../support/listen.ts'

/** How a receiver of webhooks behaves; the first part of its path. */
export type Manner =
  'well' | 'hang' | 'drip' | 'lie' | 'redirect' | 'gone' | 'later' | 'reset' | 'fail' | 'flaky'

export type Receiver = Awaited<ReturnType<typeof startReceiver>>

const MANNERS: Readonly<Record<Manner, (response: ServerResponse, count: number) => void>> = {
  well: response => response.end(),
  hang: () => {},
  drip: response => {
    response.writeHead(200)
    const timer = setInterval(() => response.write('.'), 50)
    response.on('close', () => clearInterval(timer))
  },
  lie: response => {
    response.writeHead(200, { 'content-length': 1_000_000_000, 'content-encoding': 'gzip' })
    response.write('not gzip at all'.repeat(2_000))
  },
  redirect: response => response.writeHead(301, { location: '/stray' }).end(),
  gone: response => response.writeHead(410).end(),
  later: (response, count) =>
    response.writeHead(count % 2 === 0 ? 200 : 429, { 'retry-after': '1' }).end(),
  reset: response => { response.destroy() },
  fail: response => response.writeHead(500).end('{'),
  flaky: (response, count) => response.writeHead(count % 3 === 0 ? 200 : 503).end(),
}

/** A server of webhooks of every manner, which notes what comes. */
export async function startReceiver () {
  /** Ids of the events that came, by the job they speak of. */
  const events = new Map<string, Set<string>>()
  const counts = new Map<string, number>()
  let strays = 0
  let requests = 0
  const take = async (request: IncomingMessage, response: ServerResponse) => {
    const manner = (request.url ?? '').split('/')[1] ?? ''
    if (!(manner in MANNERS)) {
      strays += 1
      return response.end()
    }
    requests += 1
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
    /** Requests that came for events. */
    requests: () => requests,
    /** Requests that a redirect led here; none must come. */
    strays: () => strays,
    close: async () => {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}
