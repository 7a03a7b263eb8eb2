import { describe, expect, it } from 'vitest'
import { findJob, findResults } from '../../../services/ingest/find-job.ts'
import { closedJob, doubles, JOB_ID, jobOf, MANIFEST } from './doubles.ts'

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

describe('results', () => {
  it('are found with the blocks they are made of', async () => {
    const deps = doubles({ findArchived: async () => archived })
    expect(await findResults(deps, TENANT, JOB_ID)).toEqual(archived)
  })

  it.each(['job_', 'JOB_01jd3v8zj7m5n2k4q6r8s0t1w3', 'job_81jd3v8zj7m5n2k4q6r8s0t1w3'])(
    'of %s, which is no id, are not looked up', async id => {
      const deps = doubles({ findArchived: () => Promise.reject(new Error('unexpected call')) })
      expect(await findResults(deps, TENANT, id)).toBeUndefined()
    })
})
