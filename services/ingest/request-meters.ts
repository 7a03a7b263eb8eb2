import type { FastifyInstance } from 'fastify'
import type { Metrics } from '../platform/metrics.ts'

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
