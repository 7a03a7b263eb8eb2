import { beforeEach, describe, expect, it } from 'vitest'
import Fastify from 'fastify'
import { WORKSPACE_KEY } from '../../../services/accounts/api-keys.ts'
import { countRequests } from '../../../services/ingest/app.ts'
import { createRoutes } from '../../../services/ingest/routes.ts'
import { createWebhookEndpoints } from '../../../services/webhooks/endpoints.ts'
import { deriveEventId } from '../../../services/webhooks/event.ts'
import { createMetrics } from '../../../services/runtime/platform/metrics.ts'
import { SpanKind } from '../../../services/runtime/platform/tracing.ts'
import { organizationKeysOf } from '../../support/keys/organization-keys.ts'
import { emptyRedis, workerRedis as redis } from '../../support/redis/worker.ts'
import { idOf, placeIn, spansOf } from '../../support/tracing.ts'
import {
  application, closedJob, doubles, good, JOB_ID, KEY_ID, MANIFEST, outage, settings,
} from './doubles.ts'

const EVENT = deriveEventId(JOB_ID, 'job.completed')
const results = `/jobs/${JOB_ID}/results`
const page = `${results}?format=json&cursor=${Buffer.from('v1:0').toString('base64url')}`
const endpoints = createWebhookEndpoints({ redis, keys: organizationKeysOf(1) })
beforeEach(emptyRedis)

const found = {
  endpoints,
  readRecentJob: async () => closedJob(),
  findArchived: async () => ({ job: closedJob(), manifest: MANIFEST }),
}
const nameOf = ({ method, url }: { readonly method: unknown, readonly url: string }) =>
  `${String(method)} ${url}`

type Line = readonly [route: string, target: string, details: object, body?: object | string]

/** What the log says on the result of each action: its target, and its details beside the mode. */
const LINES: readonly Line[] = [
  ['POST /api/v1/jobs/:id/cancel', JOB_ID, {}],
  ['DELETE /api/v1/jobs/:id', JOB_ID, {}],
  ['POST /api/v1/contact-lists', '', { action: 'block', entries: '1' },
    { action: 'block', entries: ['a.example'] }],
  ['POST /api/v1/contact-lists/file', '', { action: 'file', entries: '1' },
    'entry,list\na.example,block\n'],
  ['GET /api/v1/jobs/:id/results', JOB_ID, {}],
  ['POST /api/v1/jobs/:id/deliveries/:deliveryId/resend', EVENT, {}],
  ['POST /api/v1/webhook-endpoints', 'new', { events: 'job.completed,job.failed' }, {
    url: 'https://hidden.example/', events: ['job.completed', 'job.failed'], description: 'hidden',
  }],
  ['PATCH /api/v1/webhook-endpoints/:id', 'first', { enabled: 'false' },
    { enabled: false, url: 'https://hidden.example/' }],
  ['DELETE /api/v1/webhook-endpoints/:id', 'first', {}],
  ['POST /api/v1/webhook-endpoints/:id/rotate-secret', 'first', {}],
]

describe('an entry of the access log', () => {
  it('is made for every route that changes or downloads something', () => {
    const routes = createRoutes(doubles(), settings)
    const needed = routes.filter(({ method, config }) =>
      method !== 'GET' || [config?.scope].flat().includes('results:read'))
    expect(needed.filter(({ config }) => config?.records === undefined).map(nameOf)).toEqual([])
    expect(routes.filter(({ config }) => config?.records === null).map(nameOf))
      .toEqual(['jobs', 'verifications', 'quotes', 'file-previews', 'contact-lists/lookups']
        .map(name => `POST /api/v1/${name}`))
    expect(routes.filter(({ config }) => config?.records).map(nameOf).toSorted())
      .toEqual(LINES.map(([route]) => route).toSorted())
  })

  const cases = LINES.map(([route, target, details, body]) => ({ route, target, details, body }))
  it.each(cases)('names its target and its details: $route', async line => {
    const { route, target, details, body } = line
    const { calls, send } = application({
      ...found,
      cancel: async () => ({ kind: 'cancelling', job: closedJob() }) as never,
      openHeader: async () => ({ metadata: {}, webhookUrl: 'https://hidden.example/' }),
      listAttempts: async () => [{ event: EVENT, attempt: 1 }] as never,
    })
    const first = await endpoints.create('org_01.live', {
      url: 'https://first.example/', events: ['*'], description: '', enabled: true,
    }, 9)
    const [method = '', path = ''] = route.split(' ')
    const id = path.includes('/jobs/') ? JOB_ID : first?.id ?? ''
    const url = path.replace('/api/v1', '').replace(':id', id).replace(':deliveryId', EVENT)
    const headers = { ...typeof body === 'string' && { 'content-type': 'text/csv' } }
    const answer = await send(method, url, { headers, body })
    expect(answer.statusCode, answer.body).toBeLessThan(300)
    const made = String(answer.headers.location).split('/').at(-1)
    const entry = {
      organization: 'org_01',
      actor: { kind: 'key', id: KEY_ID },
      address: '127.0.0.1',
      entryId: expect.any(String) as string,
    }
    expect(calls.recorded).toMatchObject([{ ...entry, outcome: 'attempted' }, {
      ...entry,
      outcome: 'done',
      target: { new: made, first: first?.id }[target] ?? target,
      details: { mode: 'live', ...details },
    }])
    expect(JSON.stringify(calls.recorded)).not.toContain('hidden')
  })

  it('covers later pages of results of the same key and job', async () => {
    const { get, calls } = application(found)
    const done = () => calls.recorded.filter(({ outcome }) => outcome === 'done')
      .map(({ target }) => target)
    const other = `${JOB_ID.slice(0, -1)}9`
    for (const path of [page, page, page.replace(JOB_ID, other), `/jobs/${JOB_ID}`]) {
      expect((await get(path)).statusCode).toBe(200)
    }
    expect(done()).toEqual([JOB_ID, other])
    await get(results)
    expect(done()).toEqual([JOB_ID, other, JOB_ID])
  })

  it('is not hidden by a cursor in the query of another request', async () => {
    const { get, send, calls } = application(found)
    await get(results)
    for (const path of [`/jobs/${JOB_ID}/cancel`, '/webhook-endpoints/we_1/rotate-secret']) {
      await send('POST', `${path}?cursor=1`)
    }
    expect(calls.recorded.map(({ action, outcome }) => `${action} ${outcome}`)).toEqual([
      'results.downloaded attempted', 'results.downloaded done',
      'job.cancelled attempted', 'job.cancelled refused',
      'webhook_endpoint.secret_rotated attempted', 'webhook_endpoint.secret_rotated refused',
    ])
  })

  it('that was refused covers no later page, and a request without the right has one', async () => {
    const { get, calls } = application()
    for (const path of [results, page]) expect((await get(path)).statusCode).not.toBe(200)
    expect(calls.recorded.map(({ outcome }) => outcome)).toEqual(['attempted', 'refused'])
    const { get: getOther, calls: others } = application()
    expect((await getOther(results, { key: 'writer' })).statusCode).toBe(403)
    expect((await getOther(results, { key: 'revoked' })).statusCode).toBe(401)
    expect(others.recorded).toMatchObject([{ action: 'results.downloaded', outcome: 'refused' }])
  })

  it('that cannot be stored refuses a download with 503 before anything is read', async () => {
    const reads: string[] = []
    const { get } = application({
      findArchived: async (_tenant, job) => { reads.push(job); return undefined },
      accessLog: { append: async () => { throw outage }, withdraw: async () => false },
    })
    const answer = await get(results)
    expect([answer.statusCode, answer.json<{ error: { code: string } }>().error.code])
      .toEqual([503, 'temporarily_unavailable'])
    expect(reads).toEqual([])
  })

  it('is not made for the workspace page and for submissions of jobs', async () => {
    const { get, post, calls } = application({
      ...found,
      findKey: async () => ({
        kind: 'ok',
        key: {
          org: 'org_01',
          tenant: 'org_01.live',
          mode: 'live',
          scopes: ['jobs:read', 'jobs:write'],
          keyId: WORKSPACE_KEY,
        },
      }),
    })
    expect([(await get(results)).statusCode, (await post(good)).statusCode]).toEqual([200, 202])
    expect(calls.recorded).toEqual([])
  })
})

it('requests are counted under their route, never under the address that was sent', async () => {
  const app = Fastify()
  const metrics = createMetrics()
  app.get('/jobs/:id', async (_request, reply) => await reply.code(404).send())
  countRequests(app, metrics)
  for (const url of ['/jobs/1?key=secret', '/jobs/2', '/nowhere/3']) await app.inject(url)
  const text = await metrics.text()
  expect(text).toContain('http_requests_total{method="GET",route="/jobs/:id",status="404"} 2')
  expect(text).toContain('http_requests_total{method="GET",route="none",status="404"} 1')
  expect(text).toContain('http_request_seconds_count{method="GET",route="/jobs/:id"} 2')
  expect(text).not.toMatch(/secret|nowhere/)
})

describe('the span of a request', () => {
  const ask = async (path: string, headers: Record<string, string> = {}) => await spansOf(
    async () => {
      const { app } = application({
        readRecentJob: async (_tenant, id) => {
          if (id !== JOB_ID) throw outage
          return closedJob()
        },
      })
      await app.inject({
        method: path.endsWith('/jobs') ? 'POST' : 'GET',
        url: `${path}?key=secret`,
        headers: { authorization: 'Bearer live', ...headers },
        ...path.endsWith('/jobs') && { payload: good },
      })
      await app.close()
    })

  it('has the route, never the address, is active in the handler, and begins a trace',
    async () => {
      const [span, ...others] = await ask('/api/v1/jobs', placeIn(1, 2, '00'))
      expect(others).toEqual([])
      expect([span?.name, span?.kind]).toEqual(['POST /api/v1/jobs', SpanKind.SERVER])
      expect(span?.attributes).toEqual({
        'http.request.method': 'POST',
        'http.route': '/api/v1/jobs',
        'http.response.status_code': 202,
        request: expect.any(String) as string,
        tenant: 'org_01.live',
        job: JOB_ID,
        rows: 10,
      })
      expect(span?.parentSpanContext).toBeUndefined()
      expect(span?.links.map(({ context }) => context.traceId)).toEqual([idOf(1)])
      const [other] = await ask('/api/v1/balance', { traceparent: 'no such thing' })
      expect(other?.links).toEqual([])
    })

  it('records an internal error, and does not exist for open or unknown routes', async () => {
    const [span] = await ask(`/api/v1/jobs/${JOB_ID.slice(0, -1)}9`)
    expect(span?.attributes['error.type']).toBe('503')
    for (const path of ['/docs', '/nowhere']) expect(await ask(path)).toEqual([])
  })
})
