import { once } from 'node:events'
import { connect, type Server } from 'node:net'
import Fastify, { type FastifyContextConfig } from 'fastify'
import { describe, expect, it } from 'vitest'
import { createLimitRule } from '../../../../services/ingest/limits/apply.ts'
import type {
  Admission, LimitedRequest, Limiter,
} from '../../../../services/ingest/limits/limiter.ts'
import type { Submitted } from '../../../../services/jobs/submit.ts'
import { application, good, JOB_ID, jobOf, outage, type Sent } from '../doubles.ts'

const KEY = '7f3d2c1b-0a9e-4d8c-b7a6-5f4e3d2c1b0a'
const levels = [{ bucket: { capacity: 2, seconds: 60 }, tokens: 0.5 }]
const headers = {
  'ratelimit-limit': '2',
  'ratelimit-remaining': '0',
  'ratelimit-reset': '45',
  'ratelimit-policy': '2;w=60',
}

/** A limiter with one answer to all; what it is asked and what is released is noted. */
function limiterOf (kind: Admission['kind']) {
  const asked: LimitedRequest[] = []
  const released: unknown[] = []
  const limiter: Limiter = {
    admit: async request => {
      asked.push(request)
      const release = () => { released.push(request.preflight?.idempotencyKey) }
      return kind === 'admitted' ? { kind, levels, release } : { kind, levels }
    },
  }
  return { limiter, asked, released }
}

const accepted: Submitted = { kind: 'accepted', job: jobOf(), replayed: false, response: '' }

describe('every authenticated answer', () => {
  it.each<[what: string, status: number, sent: Sent, body: unknown]>([
    ['accepted', 202, {}, good],
    ['not JSON', 400, {}, '{'],
    ['without the scope', 403, { key: 'reader' }, good],
    ['not to the taste of the client', 406, { headers: { accept: 'image/png' } }, good],
    ['of another type', 415, { headers: { 'content-type': 'text/plain' } }, 'x'],
  ])('to a POST %s tells where the tenant stands', async (...[, status, sent, body]) => {
    const { limiter, asked, released } = limiterOf('admitted')
    const answer = await application({ limiter }).post(body, sent)
    expect(answer.statusCode).toBe(status)
    expect(answer.headers).toMatchObject({ ...headers, 'retry-after': '0' })
    expect(asked).toEqual([{
      tenant: 'org_01.live',
      kind: 'post',
      preflight: { requestId: answer.headers['x-request-id'], idempotencyKey: '' },
    }])
    expect(released).toEqual([''])
  })

  it.each([
    [`/jobs/${JOB_ID}`, 200, '0'],
    ['/jobs/job_unknown', 404, '0'],
    [`/jobs/${JOB_ID}/results`, 409, '1'],
  ])('to GET %s has its own Retry-After', async (path, status, retryAfter) => {
    const { limiter, asked } = limiterOf('admitted')
    const answer = await application({ limiter }).get(path)
    expect(answer.statusCode).toBe(status)
    expect(answer.headers).toMatchObject({ ...headers, 'retry-after': retryAfter })
    expect(asked).toEqual([{ tenant: 'org_01.live', kind: 'get' }])
  })

  it('has them also when something is away or wrong', async () => {
    const { limiter } = limiterOf('admitted')
    const failing = (error: Error) =>
      application({ limiter, readJob: () => Promise.reject(error) }).get(`/jobs/${JOB_ID}`)
    expect((await failing(outage)).headers).toMatchObject({ ...headers, 'retry-after': '2' })
    expect((await failing(new Error('a slip'))).headers).toMatchObject(headers)
  })

  it('is the only one: without a caller nothing is counted', async () => {
    const { limiter, asked } = limiterOf('admitted')
    const { app, get, post } = application({ limiter })
    const answers = [
      await get(`/jobs/${JOB_ID}`, { key: 'unknown' }), await post(good, { key: 'revoked' }),
      await app.inject('/healthz'), await get('/nothing'),
    ]
    expect(answers.map(answer => answer.statusCode)).toEqual([401, 401, 200, 404])
    for (const answer of answers) expect(answer.headers).not.toHaveProperty('ratelimit-limit')
    expect(asked).toEqual([])
  })
})

describe('a request beyond the limits', () => {
  it('is told when to come again, before its body is looked at', async () => {
    const { limiter, released } = limiterOf('throttled')
    const { post, asked } = application({ limiter })
    const answer = await post('{', { headers: { accept: 'image/png' } })
    expect([answer.statusCode, answer.json().error.code]).toEqual([429, 'rate_limited'])
    expect(answer.headers).toMatchObject({ ...headers, 'retry-after': '15' })
    expect([asked.submissions, released]).toEqual([[], []])
  })

  it('that finds no place for its preflight is told so', async () => {
    const { limiter, asked } = limiterOf('crowded')
    const answer = await application({ limiter })
      .post('{', { headers: { 'idempotency-key': KEY.toUpperCase() } })
    expect([answer.statusCode, answer.json().error.code]).toEqual([429, 'concurrent_jobs_limit'])
    expect(answer.headers).toMatchObject({ ...headers, 'retry-after': '1' })
    expect(asked[0]?.preflight?.idempotencyKey).toBe(KEY)
  })

  it('can not be told apart when Redis is away', async () => {
    const limiter = { admit: () => Promise.reject(outage) }
    const answer = await application({ limiter }).post(good)
    expect([answer.statusCode, answer.json().error.code]).toEqual([503, 'temporarily_unavailable'])
    expect(answer.headers['retry-after']).toBe('2')
  })
})

describe('the place of a preflight', () => {
  it.each([
    ['keyed', { preflight: { requestId: 'req_1', idempotencyKey: KEY } }],
    ['keyless', { preflight: { requestId: 'req_1', idempotencyKey: '' } }],
    [undefined, {}],
  ] as const)('of a %s route is asked for', async (preflight, place) => {
    const { limiter, asked } = limiterOf('admitted')
    const app = Fastify({ genReqId: () => 'req_1' })
    const applyLimits = createLimitRule(app, limiter)
    app.addHook('onRequest', (request, reply) => applyLimits(request, reply, 'org_02.test'))
    const config: FastifyContextConfig = preflight === undefined ? {} : { preflight }
    app.post('/', { config }, async () => ({}))
    await app.inject({ method: 'POST', url: '/', headers: { 'idempotency-key': KEY } })
    expect(asked).toEqual([{ tenant: 'org_02.test', kind: 'post', ...place }])
  })

  const head = ['POST /api/v1/jobs HTTP/1.1', 'host: x', 'authorization: Bearer live',
    'content-type: application/json']

  async function sentThenClosed (port: number, text: string, ready: () => boolean) {
    const socket = connect(port, '127.0.0.1')
    await once(socket, 'connect')
    socket.write(text)
    await expect.poll(ready).toBe(true)
    socket.destroy()
  }

  it('is given back by a client that leaves in the middle of its body', async () => {
    const { limiter, asked, released } = limiterOf('admitted')
    const { app } = application({ limiter })
    const port = Number(new URL(await app.listen({ port: 0, host: '127.0.0.1' })).port)
    const text = [...head, 'content-length: 100', '', '{"service":'].join('\r\n')
    await sentThenClosed(port, text, () => asked.length === 1)
    await expect.poll(() => released).toEqual([''])
    await app.close()
  })

  it('is kept while a job is prepared for a client that has left', async () => {
    const { limiter, released } = limiterOf('admitted')
    const outcome = Promise.withResolvers<Submitted>()
    let submitted = 0
    const submit = () => {
      submitted += 1
      return outcome.promise
    }
    const { app } = application({ limiter, submit })
    const port = Number(new URL(await app.listen({ port: 0, host: '127.0.0.1' })).port)
    const body = JSON.stringify(good)
    const text = [...head, `content-length: ${body.length}`, '', body].join('\r\n')
    await sentThenClosed(port, text, () => submitted === 1)
    await expect.poll(() => app.server.listening && countOf(app.server)).toBe(0)
    expect(released).toEqual([])
    outcome.resolve(accepted)
    await expect.poll(() => released).toEqual([''])
    await app.close()
  })
})

async function countOf (server: Server): Promise<number> {
  return new Promise((resolve, reject) => {
    server.getConnections((error, count) => error === null ? resolve(count) : reject(error))
  })
}
