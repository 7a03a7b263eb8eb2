import type { FastifyInstance } from 'fastify'
import type { Metrics } from '../platform/metrics.ts'

/**
 * Counts every answer under the route it is of: addresses as they were sent would give each job a
 * series of its own. What no route takes is counted under `none`.
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
