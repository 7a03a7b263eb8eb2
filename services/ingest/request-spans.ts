import type { FastifyInstance, FastifyRequest } from 'fastify'
import {
  failSpan, isTracing, spanLinksOf, SpanKind, startSpan, withSpan, withTrace, type Span,
} from '../runtime/platform/tracing.ts'

/**
 * A span for every request to the interface, named by its route, because a URL may contain
 * anything. Each starts a new trace. The trace of the client is only a link: otherwise clients
 * would control sampling and could join traces of others.
 */
export function traceRequests (app: FastifyInstance): void {
  if (!isTracing()) return
  const spans = new WeakMap<FastifyRequest, Span>()
  app.addHook('onRequest', (request, _reply, done) => {
    const { config, url = 'none' } = request.routeOptions
    if (config.scope !== undefined) spans.set(request, spanOf(request, url))
    done()
  })
  // From here on only: body chunks arrive outside of the context of earlier hooks.
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
