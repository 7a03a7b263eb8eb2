import { describe, expect, it } from 'vitest'
import type { ErasureRequest } from '../../../../services/jobs/erasures.ts'
import type { IngestDeps } from '../../../../services/ingest/deps.ts'
import { application, closedJob, doubles, JOB_ID, NOW_MS } from '../doubles.ts'

async function erase (
  { path = `/jobs/${JOB_ID}`, key = 'live', ...more }:
  Partial<IngestDeps> & { readonly path?: string, readonly key?: string } = {}
) {
  const requests: ErasureRequest[] = []
  const { send } = application({
    readJob: async () => closedJob(),
    erase: async request => {
      requests.push(request)
      return { erasedAtMs: NOW_MS, completedAtMs: undefined }
    },
    ...more,
  })
  const answer = await send('DELETE', path, { key })
  const body = answer.json()
  return { requests, body, outcome: [answer.statusCode, body.error?.code ?? body.status] }
}

describe('the route that erases a job', () => {
  it('answers with the job, when it was erased, and no labels', async () => {
    const { outcome, requests, body } = await erase()
    expect(outcome).toEqual([202, 'completed'])
    expect(requests).toEqual([{ tenant: 'org_01.live', job: JOB_ID, cache: false }])
    expect(body).toMatchObject({
      erasedAt: '2026-08-11T10:00:00.000Z', erasureCompletedAt: null, metadata: {}, totalRows: 10,
    })
  })

  it('also erases cached records on request', async () => {
    const { requests } = await erase({ path: `/jobs/${JOB_ID}?cache=true` })
    expect(requests).toMatchObject([{ cache: true }])
  })

  it('refuses a job that has not ended, and finds only jobs of the caller', async () => {
    const { readJob } = doubles()
    const running = await erase({ readJob })
    expect([running.outcome, running.requests]).toEqual([[409, 'job_not_ended'], []])
    // Its rows would be stored after the erasure.
    const unstored = await erase({ readJob: async () => ({ ...closedJob(), closed: false }) })
    expect([unstored.outcome, unstored.requests]).toEqual([[503, 'temporarily_unavailable'], []])
    expect((await erase({ readJob: async () => undefined })).outcome)
      .toEqual([404, 'job_not_found'])
    expect((await erase({ readJob, key: 'test' })).outcome).toEqual([404, 'job_not_found'])
    expect((await erase({ path: '/jobs/x' })).outcome).toEqual([404, 'job_not_found'])
  })

  it.each(['cache=yes', 'cache=', 'cache=true&cache=true', 'force=true'])(
    'refuses the query %s', async query => {
      const { outcome, requests } = await erase({ path: `/jobs/${JOB_ID}?${query}` })
      expect([outcome, requests]).toEqual([[400, 'invalid_request'], []])
    })
})

describe('an erased job', () => {
  const erasedDeps: Partial<IngestDeps> = {
    readJob: async () => closedJob(),
    openHeader: async () => { throw new Error('its key must not be searched') },
    findErasures: async () => new Map([
      [JOB_ID, { erasedAtMs: NOW_MS - 9_000, completedAtMs: NOW_MS }],
    ]),
  }

  it('shows its times, alone and in the list, and no labels', async () => {
    const { get } = application({ ...erasedDeps, listArchived: async () => [closedJob()] })
    const job = (await get(`/jobs/${JOB_ID}`)).json()
    expect(job).toMatchObject({
      status: 'completed',
      metadata: {},
      erasedAt: '2026-08-11T09:59:51.000Z',
      erasureCompletedAt: '2026-08-11T10:00:00.000Z',
    })
    expect((await get('/jobs')).json().data).toEqual([job])
  })
})
