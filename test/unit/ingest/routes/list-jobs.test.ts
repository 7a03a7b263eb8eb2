import { expect, it } from 'vitest'
import { listJobsRoute } from '../../../../services/ingest/routes/list-jobs.ts'
import { application, closedJob, doubles, JOB_ID, jobOf } from '../doubles.ts'

it('the route of the list answers with status resources and a cursor', async () => {
  expect(listJobsRoute(doubles()).config).toMatchObject({ scope: 'jobs:read' })
  const older = closedJob({ id: `${JOB_ID.slice(0, -1)}0` })
  const { get } = application({
    openJobs: async () => [jobOf()], listArchived: async () => [older],
  })
  const single = (await get(`/jobs/${JOB_ID}`)).json()
  const first = await get('/jobs?limit=1')
  expect([first.statusCode, first.json()])
    .toEqual([200, { data: [single], has_more: true, next_cursor: JOB_ID }])
  const second = (await get(`/jobs?after=${JOB_ID}`)).json()
  expect(second).toMatchObject({ data: [{ id: older.id }], has_more: false, next_cursor: null })
})
