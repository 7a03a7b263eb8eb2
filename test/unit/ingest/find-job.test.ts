import { describe, expect, it } from 'vitest'
import { findJob, findReadable } from '../../../services/ingest/find-job.ts'
import type { Job } from '../../../services/jobs/job.ts'
import { closedJob, doubles, JOB_ID, jobOf, MANIFEST, NOW_MS } from './doubles.ts'

const TENANT = 'org_01.live'
const archived = { job: closedJob(), manifest: MANIFEST }

describe('a job', () => {
  it('that runs is found without asking the archive', async () => {
    const deps = doubles({ findArchived: () => Promise.reject(new Error('unexpected call')) })
    expect(await findJob(deps, TENANT, JOB_ID)).toEqual(jobOf())
  })

  it('that Redis has forgotten is found in the archive, as the same tenant\'s', async () => {
    const calls: string[] = []
    const deps = doubles({
      readJob: async () => undefined,
      findArchived: async (tenant, id) => {
        calls.push(`${tenant} ${id}`)
        return archived
      },
    })
    expect(await findJob(deps, TENANT, JOB_ID)).toEqual(closedJob())
    expect(calls).toEqual([`${TENANT} ${JOB_ID}`])
  })

  it('that is nowhere is not found', async () => {
    const deps = doubles({ readJob: async () => undefined })
    expect(await findJob(deps, TENANT, JOB_ID)).toBeUndefined()
  })
})

it.each(['job_', 'JOB_01jd3v8zj7m5n2k4q6r8s0t1w3', 'job_81jd3v8zj7m5n2k4q6r8s0t1w3'])(
  'results of %s, which is no id, are not looked up', async id => {
    const unexpected = () => Promise.reject(new Error('unexpected call'))
    const deps = doubles({ findArchived: unexpected, findResults: unexpected })
    expect(await findReadable(deps, { retentionMs: 10_000 }, { tenant: TENANT, id }))
      .toEqual({ code: 'job_not_found' })
  })

const wanted = { tenant: TENANT, id: JOB_ID }
const find = (job: Job | undefined, manifest?: typeof MANIFEST) => findReadable(doubles({
  readJob: async () => job,
  findArchived: async () => job && manifest && { job, manifest },
}), { retentionMs: 10_000 }, wanted)

it('results can be read from the end of a job to the end of their retention', async () => {
  const closed = closedJob()
  expect(await find(closed, MANIFEST)).toEqual({ job: closed, manifest: MANIFEST })
  expect(await find(undefined)).toEqual({ code: 'job_not_found' })
  expect(await find(jobOf({ status: 'cancelling' }))).toEqual({
    code: 'job_not_completed', retryAfterSeconds: 1, more: { status: 'cancelling' },
  })
  expect(await find(closedJob({ endedAtMs: NOW_MS - 10_000 }))).toEqual({ code: 'results_expired' })
  expect(await find(closed)).toEqual({ code: 'temporarily_unavailable' })
})

it('results of an ended job are read once they are stored, or later', async () => {
  const stored = closedJob()
  const found = { job: stored, manifest: MANIFEST }
  const deps = doubles({
    readJob: async () => ({ ...stored, closed: false }), findResults: async () => found,
  })
  const read = (after: Job | undefined) => findReadable(
    { ...deps, waitForJob: async ({ isDone }) => after && isDone(after) ? after : undefined },
    { retentionMs: 10_000 }, wanted)
  expect(await read(stored)).toEqual(found)
  expect(await read({ ...stored, closed: false })).toEqual({ code: 'temporarily_unavailable' })
})

it('results of a job that was erased are gone, whatever is still stored', async () => {
  const job = closedJob()
  const deps = doubles({
    readJob: async () => job,
    findArchived: async () => ({ job, manifest: MANIFEST }),
    findErasures: async (tenant, [id = '']) => new Map(tenant === wanted.tenant && id === JOB_ID
      ? [[id, { erasedAtMs: NOW_MS, completedAtMs: undefined }]]
      : []),
  })
  expect(await findReadable(deps, { retentionMs: 10_000 }, wanted))
    .toEqual({ code: 'results_erased' })
})
