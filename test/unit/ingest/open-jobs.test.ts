import { expect, it } from 'vitest'
import { createOpenJobs } from '../../../services/ingest/open-jobs.ts'
import { jobOf } from './doubles.ts'

it('open jobs are read by their ids, but for those that ended in between', async () => {
  const ids = Array.from({ length: 250 }, (_, at) => `job_${at}`)
  let reading = 0
  let most = 0
  const openJobs = createOpenJobs({
    openJobs: async () => ids.map(job => ({ job, progressAtMs: 0 })),
    read: async (_tenant, id) => {
      most = Math.max(most, ++reading)
      await Promise.resolve()
      reading--
      return id === 'job_7' ? undefined : jobOf({ id })
    },
  })
  const found = await openJobs('org_01.live')
  expect(found.map(({ id }) => id)).toEqual(ids.filter(id => id !== 'job_7'))
  expect(most).toBe(100)
})
