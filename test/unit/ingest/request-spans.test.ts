import Fastify from 'fastify'
import { describe, expect, it } from 'vitest'
import { traceRequests } from '../../../services/ingest/request-spans.ts'
import { addSpanAttributes, SpanKind } from '../../../services/runtime/platform/tracing.ts'
import { idOf, placeIn, spansOf } from '../../support/tracing.ts'

const scope = 'jobs:read'

async function spansOfRequest (url: string, headers: Record<string, string> = {}) {
  return await spansOf(async () => {
    const app = Fastify()
    app.decorateRequest('caller', undefined)
    traceRequests(app)
    app.post('/jobs/:id', { config: { scope } }, async (request, reply) => {
      addSpanAttributes({ job: 'j' })
      request.caller = { tenant: 't' } as never
      return await reply.code(url.includes('down') ? 503 : 202).send()
    })
    app.post('/open', async () => 'open')
    await app.inject({ method: 'POST', url, headers, payload: { a: 1 } })
    await app.close()
  })
}

describe('the span of a request', () => {
  it('has the route, never the address, and is active in the handler', async () => {
    const [span, ...others] = await spansOfRequest('/jobs/1?key=secret')
    expect(others).toEqual([])
    expect([span?.name, span?.kind]).toEqual(['POST /jobs/:id', SpanKind.SERVER])
    expect(span?.attributes).toEqual({
      'http.request.method': 'POST',
      'http.route': '/jobs/:id',
      'http.response.status_code': 202,
      request: expect.any(String) as string,
      tenant: 't',
      job: 'j',
    })
  })

  it('begins a trace: that of the client is a link', async () => {
    const [span] = await spansOfRequest('/jobs/1', placeIn(1, 2, '00'))
    expect(span?.parentSpanContext).toBeUndefined()
    expect(span?.links.map(({ context }) => context.traceId)).toEqual([idOf(1)])
    const [other] = await spansOfRequest('/jobs/1', { traceparent: 'no such thing' })
    expect(other?.links).toEqual([])
  })

  it('records an internal error, and does not exist for open or unknown routes', async () => {
    const [span] = await spansOfRequest('/jobs/down')
    expect(span?.attributes['error.type']).toBe('503')
    expect(await spansOfRequest('/open')).toEqual([])
    expect(await spansOfRequest('/nowhere')).toEqual([])
  })
})
