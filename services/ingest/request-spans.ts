import type { FastifyInstance, FastifyRequest } from 'fastify'
import {
  failSpan, isTracing, spanLinksOf, SpanKind, startSpan, withSpan, withTrace, type Span,
} from '../platform/tracing.ts'

/**
 * A span of every request to the interface, under the route it is of: an address as it was sent may
 * hold anything. Each begins a trace of its own. What a client says of its trace is a link and no
 * more, or clients would decide what is kept, and could join the traces of others.
 */
export function traceRequests (app: FastifyInstance): void {
  if (!isTracing()) return
  const spans = new WeakMap<FastifyRequest, Span>()
  app.addHook('onRequest', (request, _reply, done) => {
    const { config, url = 'none' } = request.routeOptions
    if (config.scope !== undefined) spans.set(request, spanOf(request, url))
    done()
  })
  // Only from here on: the parts of a body come from outside of whatever was before.
  app.addHook('preHandler', (request, _reply, done) => {
    const span = spans.get(request)
    if (span === undefined) done()
    else withSpan(span, done)
  })
  app.addHook('onResponse', (request, { statusCode }, done) => {
    const span = spans.get(request)
    span?.setAttribute('http.response.status_code', statusCode)
    const { caller } = request
    if (caller !== undefined) span?.setAttribute('tenant', caller.tenant)
    if (span !== undefined && statusCode >= 500) failSpan(span, String(statusCode))
    span?.end()
    done()
  })
}

function spanOf (request: FastifyRequest, route: string): Span {
  const { method, headers } = request
  const { traceparent } = headers
  return withTrace({}, () => startSpan({
    name: `${method} ${route}`,
    kind: SpanKind.SERVER,
    links: spanLinksOf(typeof traceparent === 'string' ? [{ traceparent }] : []),
    attributes: { 'http.request.method': method, 'http.route': route, request: request.id },
  }))
}
