import { expect, it } from 'vitest'
import { findReadable } from '../../../services/ingest/readable-results.ts'
import type { Job } from '../../../services/jobs/job.ts'
import { closedJob, doubles, JOB_ID, jobOf, MANIFEST, NOW_MS } from './doubles.ts'

const wanted = { tenant: 'org_01.live', id: JOB_ID }
const find = (job: Job | undefined, manifest?: typeof MANIFEST) => findReadable(doubles({
  readJob: async () => job,
  findArchived: async () => job && manifest && { job, manifest },
}), { retentionMs: 10_000 }, wanted)

it('results can be read from the close of a job to the end of their retention', async () => {
  const closed = closedJob()
  expect(await find(closed, MANIFEST)).toEqual({ job: closed, manifest: MANIFEST })
  expect(await find(undefined)).toEqual({ code: 'job_not_found' })
  expect(await find(jobOf({ status: 'cancelled', ended: true }))).toEqual({
    code: 'job_not_completed', retryAfterSeconds: 1, more: { status: 'cancelling' },
  })
  expect(await find(closedJob({ endedAtMs: NOW_MS - 10_000 }))).toEqual({ code: 'results_expired' })
  expect(await find(closed)).toEqual({ code: 'temporarily_unavailable' })
})

it('results of a job that was erased are gone, whatever is still stored', async () => {
  const job = closedJob()
  const deps = doubles({
    readJob: async () => job,
    findArchived: async () => ({ job, manifest: MANIFEST }),
    isErased: async (tenant, id) => tenant === wanted.tenant && id === JOB_ID,
  })
  expect(await findReadable(deps, { retentionMs: 10_000 }, wanted))
    .toEqual({ code: 'results_expired', message: 'The contents of this job were erased.' })
})
