// What is recorded of each request: its entry in the access log, its metrics and its span.
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { LRUCache } from 'lru-cache'
import type { AccessLog, AccessEvent } from '../accounts/access-log/access-log.ts'
import { recordRequests } from '../accounts/access-log/requests.ts'
import { WORKSPACE_KEY } from '../accounts/api-keys.ts'
import type { Metrics } from '../runtime/platform/metrics.ts'
import {
  failSpan, isTracing, spanLinksOf, SpanKind, startSpan, withSpan, withTrace, type Span,
} from '../runtime/platform/tracing.ts'
import { ApiException } from './errors.ts'
import { EVENT_STREAM } from './limits/limiter.ts'

/** Fields of bodies that an entry repeats; an address of a webhook may be secret. */
const FIELDS = ['events', 'enabled']

/** How long the entry of a page of results covers later pages, for the same key and job. */
const PAGES_MS = 3_600_000
const MAX_DOWNLOADS = 10_000

/**
 * Records the requests of API keys in the access log. A later page of results needs no entry of its
 * own after that of another page; the cursor alone proves nothing, as a client can make one up.
 */
export function recordApiRequests (app: FastifyInstance, log: AccessLog): void {
  const downloads = new LRUCache<string, true>({ max: MAX_DOWNLOADS, ttl: PAGES_MS })
  const downloadName = ({ actor, target }: AccessEvent) => `${actor.id} ${target}`
  recordRequests(app, {
    log: {
      ...log,
      append: async event => {
        const id = await log.append(event)
        const isDownload = event.action === 'results.downloaded' && event.outcome === 'done'
        if (isDownload) downloads.set(downloadName(event), true)
        return id
      },
    },
    isExempt: ({ query }, event) => event.action === 'results.downloaded' &&
      ['cursor', 'after'].some(name => Object.hasOwn(query as object, name)) &&
      downloads.has(downloadName(event)),
    isRefusal: error => error instanceof ApiException && error.fault.code === 'insufficient_scope',
    requesterOf: ({ caller, body }: FastifyRequest) => {
      // The workspace page records the person behind its own requests.
      if (caller === undefined || caller.keyId === WORKSPACE_KEY) return undefined
      const { org: organization, keyId: id, mode } = caller
      const fields = Object.entries(typeof body === 'object' && body !== null ? body : {})
        .filter(([name]) => FIELDS.includes(name))
        .map(([name, value]) => [name, String(value)] as const)
      return {
        organization,
        actor: { kind: 'key', id },
        details: { mode, ...Object.fromEntries(fields) },
      }
    },
  })
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
    // A stream of events lasts as long as its job.
    if (request.routeOptions.config.produces === EVENT_STREAM) return
    metrics.observe('http_request_seconds', { method, route }, reply.elapsedTime / 1_000)
  })
}

/**
 * A span for every request to the interface, named by its route, because a URL may contain
 * anything. Each starts a new trace. The trace of the client is only a link: otherwise clients
 * would control sampling and could join traces of others.
 */
export function traceRequests (app: FastifyInstance): void {
  if (!isTracing()) return
  const spans = new WeakMap<FastifyRequest, Span>()
  app.addHook('onRequest', (request, _reply, done) => {
    const { routeOptions: { config, url: route = 'none' }, method, headers } = request
    const { traceparent } = headers
    if (config.scope !== undefined) {
      spans.set(request, withTrace({}, () => startSpan({
        name: `${method} ${route}`,
        kind: SpanKind.SERVER,
        links: spanLinksOf(typeof traceparent === 'string' ? [{ traceparent }] : []),
        attributes: { 'http.request.method': method, 'http.route': route, request: request.id },
      })))
    }
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
