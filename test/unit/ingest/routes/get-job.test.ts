import { describe, expect, it } from 'vitest'
import { getJobRoute } from '../../../../services/ingest/routes/get-job.ts'
import type { Job } from '../../../../services/jobs/job.ts'
import { application, doubles, JOB_ID, jobOf } from '../doubles.ts'

describe('the route of a job', () => {
  it('needs the scope to read', () => {
    expect(getJobRoute(doubles())).toMatchObject({
      method: 'GET',
      url: '/api/v1/jobs/:id',
      config: { scope: 'jobs:read', produces: 'application/json' },
    })
  })

  it('opens the labels of the job it found, and of none it did not find', async () => {
    const opened: Job[] = []
    const openHeader = async (job: Job) => {
      opened.push(job)
      return { metadata: { order: '7' }, webhookUrl: 'https://hooks.example.com/' }
    }
    const { get } = application({ openHeader })
    const answer = await get(`/jobs/${JOB_ID}`)
    expect(answer.json().metadata).toEqual({ order: '7' })
    expect(answer.body).not.toContain('hooks.example.com')
    await get(`/jobs/${JOB_ID.slice(0, -1)}4`)
    expect(opened).toEqual([jobOf()])
  })
})
