import { describe, expect, it } from 'vitest'
import type { Admission, LimitedRequest } from '../../../services/ingest/limits/limiter.ts'
import { application, good, JOB_ID, outage, type Sent } from './doubles.ts'

const levels = [{ bucket: { capacity: 2, seconds: 60 }, tokens: 0.5 }]
const now = [{ bucket: { capacity: 2, seconds: 60 }, tokens: 1 }]
const headers = {
  'ratelimit-limit': '2',
  'ratelimit-remaining': '0',
  'ratelimit-reset': '45',
  'ratelimit-policy': '2;w=60',
}

/** A limiter with one answer to all; `calls` records its requests. */
function limiterOf (kind: Admission['kind']) {
  const calls: LimitedRequest[] = []
  const limiter = {
    admit: async (request: LimitedRequest) => {
      calls.push(request)
      return { kind, levels }
    },
    levels: async () => levels,
  }
  return { limiter, calls }
}

describe('every authenticated answer', () => {
  it.each<[what: string, status: number, sent: Sent, body: unknown]>([
    ['accepted', 202, {}, good],
    ['not JSON', 400, {}, '{'],
    ['without the scope', 403, { key: 'reader' }, good],
    ['not to the taste of the client', 406, { headers: { accept: 'image/png' } }, good],
    ['of another type', 415, { headers: { 'content-type': 'text/plain' } }, 'x'],
  ])('to a POST %s has the headers of the limits', async (...[, status, sent, body]) => {
    const { limiter, calls } = limiterOf('admitted')
    const answer = await application({ limiter }).post(body, sent)
    expect(answer.statusCode).toBe(status)
    expect(answer.headers).toMatchObject({ ...headers, 'retry-after': '0' })
    expect(calls).toEqual([{ org: 'org_01', kind: 'post' }])
  })

  it.each([
    [`/jobs/${JOB_ID}`, 200, '0'],
    ['/jobs/job_unknown', 404, '0'],
    [`/jobs/${JOB_ID}/results`, 409, '1'],
  ])('to GET %s has its own Retry-After', async (path, status, retryAfter) => {
    const { limiter, calls } = limiterOf('admitted')
    const answer = await application({ limiter }).get(path)
    expect(answer.statusCode).toBe(status)
    expect(answer.headers).toMatchObject({ ...headers, 'retry-after': retryAfter })
    expect(calls).toEqual([{ org: 'org_01', kind: 'get' }])
  })

  it.each([
    ['GET', '/api/v1/nothing', 404, 'get'], ['PUT', '/api/v1/jobs', 405, 'post'],
    ['OPTIONS', '/api/v1/jobs', 204, 'post'],
  ] as const)('to %s %s has them too', async (...[method, url, status, kind]) => {
    const { limiter, calls } = limiterOf('admitted')
    const { app } = application({ limiter })
    const answer = await app.inject({ method, url, headers: { authorization: 'Bearer live' } })
    expect(answer.statusCode).toBe(status)
    expect(answer.headers).toMatchObject({ ...headers, 'retry-after': '0' })
    expect(calls).toEqual([{ org: 'org_01', kind }])
  })

  it('has them also when something is away or wrong', async () => {
    const { limiter } = limiterOf('admitted')
    const failing = (error: Error) =>
      application({ limiter, readJob: () => Promise.reject(error) }).get(`/jobs/${JOB_ID}`)
    expect((await failing(outage)).headers).toMatchObject({ ...headers, 'retry-after': '2' })
    expect((await failing(new Error('a slip'))).headers).toMatchObject(headers)
  })

  it('has the limits as they are when it is sent, however long it waited', async () => {
    const { limiter } = limiterOf('admitted')
    const { post } = application({ limiter: { ...limiter, levels: async () => now } })
    expect((await post(good)).headers).toMatchObject({
      ...headers, 'ratelimit-remaining': '1', 'ratelimit-reset': '30', 'retry-after': '0',
    })
  })

  it('to a test key counts with those of live keys', async () => {
    const { limiter, calls } = limiterOf('admitted')
    const { post, get } = application({ limiter })
    for (const key of ['live', 'test']) {
      await post(good, { key })
      await get('/jobs', { key })
    }
    const [sent, read] = (['post', 'get'] as const).map(kind => ({ org: 'org_01', kind }))
    expect(calls).toEqual([sent, read, sent, read])
  })

  it('is the only one: without a caller nothing is counted', async () => {
    const { limiter, calls } = limiterOf('admitted')
    const { app, get, post } = application({ limiter })
    const answers = [
      await get(`/jobs/${JOB_ID}`, { key: 'unknown' }), await post(good, { key: 'revoked' }),
      await app.inject('/changelog'), await app.inject('/api/v1/nothing'),
      await get('/nothing', { key: 'unknown' }),
    ]
    expect(answers.map(answer => answer.statusCode)).toEqual([401, 401, 200, 404, 404])
    for (const answer of answers) expect(answer.headers).not.toHaveProperty('ratelimit-limit')
    expect(calls).toEqual([])
  })
})

describe('a request beyond the limits', () => {
  it('gets Retry-After before its body is parsed', async () => {
    const { limiter } = limiterOf('throttled')
    const { post, calls } = application({ limiter })
    const answer = await post('{', { headers: { accept: 'image/png' } })
    expect([answer.statusCode, answer.json().error.code]).toEqual([429, 'rate_limited'])
    expect(answer.headers).toMatchObject({ ...headers, 'retry-after': '15' })
    expect(calls.submissions).toEqual([])
  })
})
