import { expect, it } from 'vitest'
import type { Job } from '../../../../services/jobs/job.ts'
import { CONTACT_STANDING, standingOf } from '../../../../services/ops/dead/standing.ts'

const jobWith = (job: Partial<Job>) => ({
  kind: 'accepted' as const,
  job: { status: 'verifying', ended: false, closed: false, ...job } as Job,
})

it('says what a replay can change', () => {
  const found = [
    standingOf({ kind: 'refused', refusal: { code: 'internal' } }),
    standingOf({ kind: 'open' }),
    standingOf(jobWith({ status: 'completed', ended: true })),
    standingOf(jobWith({ status: 'failed', ended: true, closed: true })),
    standingOf(jobWith({})),
    CONTACT_STANDING,
  ]
  expect(found.map(({ standing, replay }) => [standing, replay.split(':')[0]])).toEqual([
    ['refused', 'changes nothing'],
    ['unknown', 'charges nothing'],
    ['completed', 'charges nothing'],
    ['failed', 'charges nothing'],
    ['verifying', 'can finish rows that are open; all others keep their result and price'],
    ['no job', 'is a new contact of its feed each time'],
  ])
})
