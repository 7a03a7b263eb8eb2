import type { FastifyInstance } from 'fastify'
import { FatalError, isInfrastructure } from '../runtime/platform/errors.ts'
import { explainListenError } from '../runtime/platform/http-server.ts'
import type { Metrics } from '../runtime/platform/metrics.ts'
import type { ServiceContext } from '../runtime/platform/run.ts'
import { createApp } from './app.ts'
import type { AdmittingDeps } from './load-shedding.ts'
import { settingsOf, type Config } from './config.ts'
import { apiDocuments } from './routes.ts'
import { listenTls } from './tls.ts'

/** Listens on the plain port and, with a certificate, on the TLS port, until the process stops. */
export async function serve (
  deps: AdmittingDeps, config: Config,
  context: Pick<ServiceContext, 'log' | 'metrics' | 'onStop'>
): Promise<void> {
  const { log, metrics, onStop } = context
  const app = createApp({ deps, settings: settingsOf(config), log, connection: config })
  countRequests(app, metrics)
  await apiDocuments()
  const stops: (() => Promise<void>)[] = [() => app.close()]
  // Each waits for its pending requests, so they stop concurrently.
  onStop(() => Promise.all(stops.map(stop => stop())))
  await app.listen({ host: config.HOST, port: config.PORT_HTTP }).catch((error: unknown) => {
    throw explainListenError(error, 'PORT_HTTP')
  })
  const tls = await listenTls(app, { settings: config, log })
  if (tls !== undefined) stops.push(tls.stop)
}

/**
 * Counts every response by its route: raw URLs would create a series per job. Requests without a
 * route are counted as `none`.
 */
export function countRequests (
  app: FastifyInstance, metrics: Pick<Metrics, 'count' | 'observe'>
): void {
  app.addHook('onResponse', async (request, reply) => {
    const { method } = request
    const route = request.routeOptions.url ?? 'none'
    metrics.count('http_requests_total', { method, route, status: String(reply.statusCode) })
    metrics.observe('http_request_seconds', { method, route }, reply.elapsedTime / 1_000)
  })
}

/** Whether an operator can fix the error without loss, a missing root key included. */
export function isRecoverable (error: unknown): boolean {
  return isInfrastructure(error) || error instanceof FatalError
}
