import { beforeEach, describe, expect, it } from 'vitest'
import type { IngestDeps } from '../../../../services/ingest/deps.ts'
import type { Attempt } from '../../../../services/webhooks/deliveries.ts'
import { createWebhookEndpoints } from '../../../../services/webhooks/endpoints.ts'
import { deriveEventId } from '../../../../services/webhooks/event.ts'
import { organizationKeysOf } from '../../../support/keys/organization-keys.ts'
import { emptyRedis, workerRedis as redis } from '../../../support/redis/worker.ts'
import { deliveryAttempt } from '../../../support/webhooks/deliveries.ts'
import { application, closedJob, JOB_ID, NOW_MS } from '../doubles.ts'

const url = 'https://hooks.example.com/in'

beforeEach(emptyRedis)
const endpoints = createWebhookEndpoints({ redis, keys: organizationKeysOf(1), now: () => NOW_MS })

type Sent = { readonly key?: string, readonly body?: unknown }

function scene (more: Partial<IngestDeps> = {}) {
  const { send } = application({ endpoints, ...more })
  return async (method: string, path = '', sent: Sent = {}) => {
    const answer = await send(method, `/webhook-endpoints${path}`, sent)
    return { status: answer.statusCode, body: answer.json(), headers: answer.headers }
  }
}

/** An interface with one endpoint. */
async function withOne (more: Partial<IngestDeps> = {}) {
  const call = scene(more)
  return { call, id: (await call('POST', '', { body: { url } })).body.id as string }
}

describe('webhook endpoints', () => {
  it('are created with a secret, which no other answer shows', async () => {
    const call = scene()
    const { status, body, headers } = await call('POST', '', { body: { url } })
    expect(status).toBe(201)
    expect(headers.location).toBe(`/api/v1/webhook-endpoints/${body.id}`)
    const { secret, ...shown } = body
    expect(secret).toMatch(/^whsec_/)
    expect(shown).toMatchObject({
      url,
      events: ['*'],
      description: '',
      enabled: true,
      livemode: true,
      createdAt: '2026-08-11T10:00:00.000Z',
    })
    expect((await call('GET')).body).toEqual({ data: [shown] })
    expect((await call('GET', `/${body.id}`)).body).toEqual(shown)
  })

  it('are limited in number', async () => {
    const call = scene()
    await call('POST', '', { body: { url } })
    await call('POST', '', { body: { url } })
    const { status, body } = await call('POST', '', { body: { url } })
    expect([status, body.error.code]).toEqual([409, 'webhook_endpoints_limit'])
    expect(body.error.message).toContain('There are 2')
  })

  it('of one mode are unknown to keys of the other', async () => {
    const { call, id } = await withOne()
    expect((await call('GET', '', { key: 'test' })).body).toEqual({ data: [] })
    const calls: [string, string, unknown?][] = [
      ['GET', ''], ['PATCH', '', { enabled: true }], ['DELETE', ''], ['POST', '/rotate-secret'],
      ['GET', '/deliveries'],
    ]
    for (const [method, path, body] of calls) {
      const answer = await call(method, `/${id}${path}`, { key: 'test', body })
      expect([method, path, answer.status, answer.body.error.code])
        .toEqual([method, path, 404, 'webhook_endpoint_not_found'])
    }
  })
})

describe('a bad request for a webhook endpoint', () => {
  it.each([
    [{}, 'invalid_request', 'url'],
    [{ url: 'http://hooks.example.com/' }, 'invalid_webhook_url', 'url'],
    [{ url: 'https://10.0.0.1/' }, 'invalid_webhook_url', 'url'],
    [{ url: `https://hooks.example.com/${'a'.repeat(2_048)}` }, 'invalid_webhook_url', 'url'],
    [{ url, events: [] }, 'invalid_request', 'events'],
    [{ url, events: ['job.done'] }, 'invalid_request', 'events[0]'],
    [{ url, events: ['job.failed', 'job.failed'] }, 'invalid_request', 'events'],
    [{ url, secret: 'whsec_mine' }, 'invalid_request', 'secret'],
  ])('%j is answered with %s at %s', async (body, code, param) => {
    const { status, body: { error } } = await scene()('POST', '', { body })
    expect([status, error.code, error.param]).toEqual([400, code, param])
  })

  it('that changes nothing, or to a bad address, is refused', async () => {
    const { call, id } = await withOne()
    const codes = await Promise.all([{}, { url: 'https://localhost/' }, { id: 'we_2' }].map(body =>
      call('PATCH', `/${id}`, { body })))
    expect(codes.map(({ status, body }) => [status, body.error.code])).toEqual([
      [400, 'invalid_request'], [400, 'invalid_webhook_url'], [400, 'invalid_request'],
    ])
    expect(codes[0]!.body.error.message).toBe('The body is empty. Send at least one field.')
  })

  it.each(['limit=0', 'limit=101', 'limit=x', 'after=x', 'after=job_1.evt_1.1', 'page=2'])(
    'with ?%s for its deliveries is refused', async query => {
      const { call, id } = await withOne()
      const { status, body } = await call('GET', `/${id}/deliveries?${query}`)
      expect([status, body.error.code]).toEqual([400, 'invalid_request'])
    })
})

describe('the deliveries of a webhook endpoint', () => {
  const event = deriveEventId(JOB_ID, 'job.completed')
  it('are listed by pages, and the cursor continues after the last attempt', async () => {
    const asked: unknown[] = []
    const { call, id } = await withOne({
      listEndpointAttempts: async (...of) => {
        asked.push(of)
        return [3, 2].slice(0, of[2].limit).map(attempt =>
          deliveryAttempt({ event: `${event}.${of[1]}`, attempt, atMs: NOW_MS }))
      },
    })
    const first = await call('GET', `/${id}/deliveries?limit=1`)
    expect(first.body).toEqual({
      data: [{
        deliveryId: `${event}.${id}`,
        type: 'job.completed',
        jobId: JOB_ID,
        endpointId: id,
        attempt: 3,
        attemptedAt: '2026-08-11T10:00:00.000Z',
        outcome: 'failed',
        statusCode: null,
        reason: 'timeout',
        durationMs: 15_000,
      }],
      has_more: true,
      next_cursor: `${JOB_ID}.${event}.3`,
    })
    const cursor = first.body.next_cursor
    const last = await call('GET', `/${id}/deliveries?limit=2&after=${cursor}`)
    expect([last.body.has_more, last.body.next_cursor]).toEqual([false, null])
    expect(asked).toEqual([
      ['org_01.live', id, { limit: 2 }],
      ['org_01.live', id, {
        limit: 3, after: { job: JOB_ID, event: `${event}.${id}`, attempt: 3 },
      }],
    ])
  })
})

const EVENT = deriveEventId(JOB_ID, 'job.completed')
const webhookUrl = 'https://hooks.example.com/in'
const withoutAddress = async () => ({ metadata: {}, webhookUrl: '' })
const attemptOf = (more: Partial<Attempt>) =>
  deliveryAttempt({ event: EVENT, atMs: NOW_MS, ...more })

/** An interface with a job that has ended, whose webhook has an address. */
const withJob = (more: Partial<IngestDeps>) => application({
  readRecentJob: async (_tenant, id) => id === JOB_ID ? closedJob() : undefined,
  openHeader: async () => ({ metadata: {}, webhookUrl }),
  ...more,
})

async function list (more: Partial<IngestDeps> = {}, job = JOB_ID) {
  const answer = await withJob(more).get(`/jobs/${job}/deliveries`)
  return { status: answer.statusCode, body: answer.json() }
}

it('the route of deliveries outlives the address of a job that was erased', async () => {
  const { status, body } = await list({
    openHeader: withoutAddress,
    listAttempts: async () => [attemptOf({ outcome: 'discarded', reason: 'erased' })],
  })
  expect([status, body.data.length]).toEqual([200, 1])
  expect(body.data[0]).toMatchObject({ outcome: 'discarded', reason: 'erased' })
})

/** Requests a resend; `sent` are the arguments that were passed on. */
async function resend (more: Partial<IngestDeps> = {}, { job = JOB_ID, event = EVENT } = {}) {
  const sent: unknown[] = []
  const { send } = withJob({
    listAttempts: async () => [attemptOf({}), attemptOf({ attempt: 2 })],
    resend: async (...parameters) => {
      sent.push(parameters)
      return 'queued'
    },
    ...more,
  })
  const answer = await send('POST', `/jobs/${job}/deliveries/${event}/resend`)
  const body = answer.json()
  return { answer: [answer.statusCode, body.error?.code ?? body], sent }
}

const delivery = { tenant: 'org_01.live', job: JOB_ID, type: 'job.completed', to: { webhookUrl } }

it('the route of resending brings forward what waits for its first attempt', async () => {
  const { sent } = await resend({
    listAttempts: async () => [],
    findDelivery: async event => event === EVENT
      ? { state: 'waiting', attempts: 0, dueAtMs: 1 }
      : undefined,
  })
  expect(sent).toEqual([[delivery, 0]])
})
