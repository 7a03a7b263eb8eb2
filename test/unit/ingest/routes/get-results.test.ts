import { describe, expect, it } from 'vitest'
import { application, closedJob, JOB_ID, NOW_MS } from '../doubles.ts'

describe('the route of results', () => {
  it('sends Retry-After while a closed job is not in the archive yet', async () => {
    const { get } = application({ readJob: async () => closedJob() })
    const answer = await get(`/jobs/${JOB_ID}/results`)
    expect([answer.statusCode, answer.json().error.code, answer.headers['retry-after']])
      .toEqual([503, 'temporarily_unavailable', '2'])
  })

  it('applies the retention of the installation, without reading what is expired', async () => {
    const { get } = application({
      readJob: async () => closedJob({ endedAtMs: NOW_MS - 1_000 }),
      findArchived: () => Promise.reject(new Error('read')),
    }, { retentionMs: 1_000 })
    const answer = await get(`/jobs/${JOB_ID}/results`)
    expect([answer.statusCode, answer.json().error.code]).toEqual([410, 'results_expired'])
  })
})
