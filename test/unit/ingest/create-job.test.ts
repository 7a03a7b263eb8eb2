import { describe, expect, it } from 'vitest'
import type { Refusal } from '../../../services/jobs/job.ts'
import type { Submitted } from '../../../services/jobs/submit.ts'
import { application, good, JOB_ID, jobOf, outage } from './doubles.ts'

const KEY = '7f3d2c1b-0a9e-4d8c-b7a6-5f4e3d2c1b0a'

const ACCEPTED = {
  id: JOB_ID,
  status: 'queued',
  preflight: {
    totalRows: 10,
    invalidRows: 2,
    duplicateRows: 3,
    cacheHits: 1,
    freshChecks: 4,
    maxQuoteMicros: 10_000,
    quoteId: 'quot_01jd3v8zj7m5n2k4q6r8s0t1w4',
  },
  ok: true,
  data: {
    id: JOB_ID,
    service: 'phone-validation',
    status: 'queued',
    item_count: 10,
    max_quote_micros: 10_000,
    created_at: '2026-08-11T09:59:55.000Z',
  },
}

describe('an accepted job', () => {
  it('is answered with 202, its preflight and where it is', async () => {
    const { post } = application()
    const answer = await post(good)
    expect(answer.statusCode).toBe(202)
    expect(answer.json()).toEqual(ACCEPTED)
    expect(answer.headers).toMatchObject({
      location: `/api/v1/jobs/${JOB_ID}`,
      'content-type': 'application/json; charset=utf-8',
      'api-version': '2026-08-11',
    })
    expect(answer.headers['x-request-id']).toMatch(/^req_[0-9a-z]{26}$/)
    expect(answer.headers).not.toHaveProperty('idempotent-replayed')
  })

  it.each([
    ['an input too long to be valid', ['x'.repeat(1_024)]],
    ['empty and blank inputs', ['', ' ', '\t\n']],
    ['control characters and a lone surrogate', ['\u0000\u0001\u009f', '\ud800']],
  ])('accepts %s: the row is validated later, and free', async (_, inputs) => {
    const { post, calls } = application()
    expect((await post({ ...good, inputs })).statusCode).toBe(202)
    expect(calls.submissions[0]?.inputs).toEqual(inputs)
  })

  it('takes 100,000 inputs, and a body with a byte order mark', async () => {
    const { post, calls } = application({}, { bodyBudgetBytes: 40_000_000 })
    const inputs = Array(100_000).fill('x'.repeat(320))
    expect((await post({ ...good, inputs })).statusCode).toBe(202)
    expect(calls.submissions[0]?.inputs.length).toBe(100_000)
    expect((await post(`\ufeff${JSON.stringify(good)}`)).statusCode).toBe(202)
  })
})

describe('a repeated request', () => {
  it('is answered with the body of the first answer, byte for byte, and says so', async () => {
    const { post } = application({
      submit: async () => ({ kind: 'accepted', job: jobOf(), replayed: true }),
    })
    const answer = await post(good, { headers: { 'idempotency-key': KEY } })
    expect(answer.body).toBe(JSON.stringify(ACCEPTED))
    expect(answer.statusCode).toBe(202)
    expect(answer.headers['idempotent-replayed']).toBe('true')
    expect(answer.headers.location).toBe(`/api/v1/jobs/${JOB_ID}`)
  })

  it('with another body is refused', async () => {
    const { post } = application({ submit: async () => ({ kind: 'reused' }) })
    const answer = await post(good, { headers: { 'idempotency-key': KEY } })
    expect(answer.statusCode).toBe(422)
    expect(answer.json().error).toMatchObject({
      type: 'idempotency', code: 'idempotency_key_reused', param: 'Idempotency-Key',
    })
  })
})

describe('a job that is not accepted', () => {
  const refused = async (refusal: Refusal) => {
    const { post } = application({ submit: async () => ({ kind: 'refused', refusal }) })
    return post(good)
  }

  it('for lack of money names the required and the available amount', async () => {
    const answer = await refused({
      code: 'insufficient_balance', requiredMicros: 10_000, availableMicros: 9_999,
    })
    expect(answer.statusCode).toBe(402)
    expect(answer.json().error).toMatchObject({
      type: 'payment',
      code: 'insufficient_balance',
      requiredMicros: 10_000,
      availableMicros: 9_999,
      request_id: answer.headers['x-request-id'],
    })
    expect(answer.headers['retry-after']).toBe('0')
  })

  it.each([
    [429, 'concurrent_jobs_limit', 'concurrent_jobs_limit'],
    [503, 'temporarily_unavailable', 'expired'],
    [503, 'temporarily_unavailable', 'internal'],
  ] as const)('is answered with %i %s when the refusal is %s', async (status, code, refusal) => {
    const answer = await refused({ code: refusal })
    expect([answer.statusCode, answer.json().error.code]).toEqual([status, code])
    expect(answer.headers['retry-after']).toBe('5')
  })

  it('because infrastructure is away says that the outcome is not known', async () => {
    const { post } = application({ submit: () => Promise.reject(outage) })
    const answer = await post(good)
    expect([answer.statusCode, answer.json().error.code]).toEqual([503, 'temporarily_unavailable'])
    expect(answer.json().error.message).toContain('same Idempotency-Key')
    expect(Number(answer.headers['retry-after'])).toBeGreaterThanOrEqual(1)
  })

  it('for lack of memory for its body is sent before the body is read', async () => {
    const held = Promise.withResolvers<Submitted>()
    const { post, app } = application({ submit: () => held.promise }, { bodyBudgetBytes: 100 })
    const large = JSON.stringify(good).padEnd(70_000)
    // A request is only sent once it is waited for.
    const first = post(large).then(answer => answer.statusCode)
    await expect.poll(async () => (await post(large)).statusCode).toBe(503)
    held.resolve({ kind: 'reused' })
    expect(await first).toBe(422)
    expect((await post(large)).statusCode).toBe(422)
    await app.close()
  })
})
