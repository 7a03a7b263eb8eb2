import { describe, expect, it } from 'vitest'
import { getResultsRoute } from '../../../../services/ingest/routes/get-results.ts'
import { RESULT_TYPES } from '../../../../services/ingest/results-response.ts'
import { application, closedJob, doubles, JOB_ID, NOW_MS, settings } from '../doubles.ts'

describe('the route of results', () => {
  it('needs the scope to read', () => {
    expect(getResultsRoute(doubles(), settings)).toMatchObject({
      method: 'GET',
      url: '/api/v1/jobs/:id/results',
      config: {
        scope: 'results:read',
        produces: Object.values(RESULT_TYPES),
      },
    })
  })

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
