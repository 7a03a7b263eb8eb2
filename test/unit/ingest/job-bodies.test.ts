import { expect, it } from 'vitest'
import { jobBodies } from '../../../services/ingest/find-job.ts'
import { closedJob, doubles, JOB_ID, jobOf, NOW_MS } from './doubles.ts'

it('jobBodies searches erasures of closed jobs only, with one call', async () => {
  const calls: (readonly string[])[] = []
  const deps = doubles({
    findErasures: async (_tenant, jobs) => {
      calls.push(jobs)
      return new Map([[jobs[0] ?? '', { erasedAtMs: NOW_MS, completedAtMs: undefined }]])
    },
  })
  const [one, other] = [closedJob(), closedJob({ id: `${JOB_ID.slice(0, -1)}9` })]
  const bodies = await jobBodies(deps, 'org_01.live', [jobOf({ id: 'job_1' }), one, other])
  expect(calls).toEqual([[one.id, other.id]])
  expect(bodies.map(({ id, erasedAt, metadata }) => [id, erasedAt, metadata])).toEqual([
    ['job_1', null, { team: 'blue' }],
    [one.id, '2026-08-11T10:00:00.000Z', {}],
    [other.id, null, { team: 'blue' }],
  ])
  await jobBodies(deps, 'org_01.live', [jobOf()])
  expect(calls).toHaveLength(1)
})
