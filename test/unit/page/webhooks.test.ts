import { afterEach, describe, expect, it } from 'vitest'
import type { FastifyInstance } from 'fastify'
import { EVENT_TYPES } from '../../../schemas/api/event.ts'
import type { EndpointBody } from '../../../schemas/api/webhook-endpoints.ts'
import { createPage } from '../../../services/page/app.ts'
import type { PageDeps } from '../../../services/page/context.ts'
import { webhookRoutes, webhooksView } from '../../../services/page/webhooks.ts'
import { createPageDeps, ORGANIZATION, visitLike } from '../../support/page/page-doubles.ts'

const opened: FastifyInstance[] = []
afterEach(async () => { await Promise.all(opened.splice(0).map(app => app.close())) })

const endpoint: EndpointBody = {
  id: 'we_1',
  url: 'https://hooks.example.com/<in>',
  events: ['*'],
  description: 'mine & yours',
  enabled: true,
  livemode: true,
  createdAt: '2026-11-21T12:00:00.000Z',
  updatedAt: '2026-11-21T12:00:00.000Z',
}
const attempt = {
  deliveryId: 'evt_1.we_1',
  type: 'job.completed',
  jobId: 'job_1',
  endpointId: 'we_1',
  attempt: 1,
  attemptedAt: '2026-11-21T12:00:00.000Z',
  outcome: 'exhausted',
  statusCode: 500,
  reason: 'status',
  durationMs: 5,
}

/** A signed-in browser; `calls` are those of the REST client and of the policy. */
async function browse (more: Partial<PageDeps> = {}) {
  const calls: unknown[][] = []
  const recording = (name: string, answer: unknown) => async (...of: unknown[]) => {
    calls.push([name, ...of])
    return answer
  }
  const deps = createPageDeps({
    webhookEndpoints: async () => [endpoint],
    webhookEndpoint: async () => endpoint,
    endpointDeliveries: async function * () { for (;;) yield attempt },
    createWebhookEndpoint: recording('create', { ...endpoint, secret: 'whsec_new' }),
    updateWebhookEndpoint: recording('update', endpoint),
    deleteWebhookEndpoint: recording('delete', { id: 'we_1', deleted: true }),
    rotateWebhookEndpointSecret: recording('rotate', { ...endpoint, secret: 'whsec_rotated' }),
  }, {
    organizations: {
      find: async () => ORGANIZATION,
      setPolicy: recording('policy', undefined) as never,
      isErased: async () => false,
    },
    ...more,
  })
  const app = createPage({ deps, trustedProxies: [] })
  opened.push(app)
  const { id, session } = await deps.sessions.create({ kind: 'customer', orgId: ORGANIZATION.id })
  const headers = { cookie: `session=${id}`, host: 'h', origin: 'http://h' }
  const send = (url: string, form: [string, string][] = []) => app.inject({
    method: 'POST',
    url,
    headers: { ...headers, 'content-type': 'application/x-www-form-urlencoded' },
    payload: String(new URLSearchParams([['form_token', session.token], ...form])),
  })
  return { calls, send, get: (url: string) => app.inject({ url, headers }) }
}

const nonceIn = (body: string) => /name="nonce" value="([\w-]+)"/.exec(body)?.[1] ?? ''

describe('the page of webhooks', () => {
  it('lists endpoints, and offers every event', async () => {
    const { get } = await browse()
    const { body } = await get('/live/webhooks')
    expect(body).toContain('hooks.example.com/&lt;in&gt;')
    expect(body).toContain('mine &amp; yours')
    for (const type of EVENT_TYPES) expect(body).toContain(`value="${type}"`)
    expect(webhookRoutes(createPageDeps())).toHaveLength(7)
  })

  it('creates one endpoint per form, and shows its secret', async () => {
    const { get, send, calls } = await browse()
    const form: [string, string][] = [
      ['nonce', nonceIn((await get('/live/webhooks')).body)],
      ['url', ' https://hooks.example.com/in '], ['description', 'mine'],
      ['event', 'job.failed'], ['event', 'constructor'],
    ]
    const made = await send('/live/webhooks', form)
    expect([made.statusCode, made.body]).toEqual([200, expect.stringContaining('whsec_new')])
    const again = await send('/live/webhooks', form)
    expect(again.headers.location).toBe('/live/webhooks?notice=endpoint-once')
    expect(calls).toEqual([['create', {
      url: 'https://hooks.example.com/in', events: ['job.failed'], description: 'mine',
    }]])
  })

  it('needs an event, and a known form of id', async () => {
    const { get, send, calls } = await browse()
    expect((await send('/live/webhooks', [['url', 'https://a.example/']])).statusCode).toBe(400)
    expect((await get('/live/webhooks/we_1%2f..')).statusCode).toBe(404)
    expect((await send('/live/webhooks/x/delete')).statusCode).toBe(404)
    expect(calls).toEqual([])
  })

  it('shows the latest deliveries of an endpoint with its actions', async () => {
    const { get, send, calls } = await browse()
    const { body } = await get('/live/webhooks/we_1')
    expect(body.match(/href="\/live\/jobs\/job_1"/g)).toHaveLength(50)
    expect(body).toContain('Retries exhausted')
    const rotated = await send('/live/webhooks/we_1/secret', [['nonce', nonceIn(body)]])
    expect(rotated.body).toContain('whsec_rotated')
    const again = await send('/live/webhooks/we_1/secret', [['nonce', nonceIn(body)]])
    expect(again.headers.location).toBe('/live/webhooks?notice=endpoint-once')
    await send('/live/webhooks/we_1/enabled', [['enabled', 'false']])
    const gone = await send('/live/webhooks/we_1/delete')
    expect(gone.headers.location).toBe('/live/webhooks?notice=endpoint-deleted')
    expect(calls).toEqual([
      ['rotate', 'we_1'], ['update', 'we_1', { enabled: false }], ['delete', 'we_1'],
    ])
  })

  it('sets and removes the threshold of a low balance', async () => {
    const { send, calls } = await browse()
    await send('/live/webhooks/low-balance', [['usd', '12.50']])
    await send('/live/webhooks/low-balance', [['usd', '']])
    expect((await send('/live/webhooks/low-balance', [['usd', '-1']])).statusCode).toBe(400)
    expect(calls).toEqual([
      ['policy', 'org_1', { lowBalanceMicros: 12_500_000 }],
      ['policy', 'org_1', { lowBalanceMicros: 'default' }],
    ])
  })

  it('shows the threshold in live mode, as test jobs are free', () => {
    const shown = { endpoints: [], nonce: 'm', notice: undefined }
    const visit = visitLike()
    const organization = {
      ...visit.organization, policy: { ...visit.organization.policy, lowBalanceMicros: 12_500_000 },
    }
    expect(webhooksView({ ...visit, organization }, shown).html).toContain('below $12.50')
    expect(webhooksView(visitLike('test'), shown).html).not.toContain('Low balance')
  })
})
