import { describe, expect, it } from 'vitest'
import type { IngestDeps } from '../../../../services/ingest/ports.ts'
import { cancelJobRoute } from '../../../../services/ingest/routes/jobs.ts'
import { application, closedJob, doubles, JOB_ID, jobOf } from '../doubles.ts'

/** Cancels the job and returns the status, the code or the state, and the headers. */
async function cancel (more: Partial<IngestDeps> = {}, headers: Record<string, string> = {}) {
  const { app } = application(more)
  const answer = await app.inject({
    method: 'POST',
    url: `/api/v1/jobs/${JOB_ID}/cancel`,
    headers: { authorization: 'Bearer live', ...headers },
  })
  const body = answer.json()
  return [answer.statusCode, body.error?.code ?? body.status]
}

describe('the route of cancelling', () => {
  it('needs the scope to write', () => {
    expect(cancelJobRoute(doubles()).config).toMatchObject({ scope: 'jobs:write' })
  })

  it('answers with the job as it is now, whatever type names the body it has not', async () => {
    const job = jobOf({ status: 'cancelling' })
    const deps = { cancel: async () => ({ kind: 'cancelling', job }) as const }
    expect(await cancel(deps)).toEqual([202, 'cancelling'])
    expect(await cancel(deps, { 'content-type': 'application/json' })).toEqual([202, 'cancelling'])
  })

  it('comes too late for a job that has ended', async () => {
    const job = closedJob()
    const ended = { cancel: async () => ({ kind: 'ended', job }) as const }
    expect(await cancel(ended)).toEqual([409, 'job_not_cancellable'])
    const archived = {
      readJob: async () => undefined, findArchived: async () => ({ job, manifest: [] }),
    }
    expect(await cancel(archived)).toEqual([409, 'job_not_cancellable'])
    expect(await cancel({ readJob: async () => undefined })).toEqual([404, 'job_not_found'])
  })
})
