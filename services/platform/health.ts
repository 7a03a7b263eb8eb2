import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Log } from './log.ts'
import type { Metrics } from './metrics.ts'

type HealthOptions = {
  /** Listen address; loopback by default. */
  readonly host?: string
  /** 0 takes a free port. */
  readonly port: number
  readonly ready: () => boolean
  readonly metrics: Metrics
  readonly log: Log
}

/** Serves /healthz (200), /readyz (200, or 503 while the service is not ready) and /metrics. */
export async function serveHealth (
  { host = '127.0.0.1', port, ready, metrics, log }: HealthOptions
): Promise<Server> {
  const answer = async (path: string): Promise<readonly [status: number, text: string]> => {
    if (path === '/healthz') return [200, 'ok\n']
    if (path === '/readyz') return ready() ? [200, 'ready\n'] : [503, 'not ready\n']
    if (path === '/metrics') return [200, await metrics.text()]
    return [404, 'not found\n']
  }
  const server = createServer((request, response) => {
    const path = (request.url ?? '').split('?', 1)[0] ?? ''
    const type = path === '/metrics' ? metrics.contentType : 'text/plain; charset=utf-8'
    answer(path).then(
      ([status, text]) => response.writeHead(status, { 'content-type': type }).end(text),
      error => {
        log.error({ err: error as unknown }, 'failed to collect metrics')
        response.writeHead(500).end()
      })
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(port, host, resolve)
  })
  log.info({ port: (server.address() as AddressInfo).port }, 'health server started')
  return server
}

/** Closes idle connections too, so that a keep-alive scraper does not delay the stop. */
export function closeServer (server: Server): Promise<void> {
  return new Promise(resolve => {
    server.close(() => resolve())
    server.closeAllConnections()
  })
}
