import { describe, expect, it } from 'vitest'
import type { Refusal } from '../../../services/jobs/job.ts'
import { application, good, outage } from './doubles.ts'

describe('a job that is not accepted', () => {
  const refused = async (refusal: Refusal) => {
    const { post } = application({ submit: async () => ({ kind: 'refused', refusal }) })
    return post(good)
  }

  it.each([
    [429, 'concurrent_jobs_limit', 'concurrent_jobs_limit'],
    [503, 'wallet_unavailable', 'frozen'],
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
})
