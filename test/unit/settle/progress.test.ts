import { describe, expect, it } from 'vitest'
import type { Job } from '../../../services/jobs/job.ts'
import type { Tallied } from '../../../services/jobs/store-types.ts'
import { type Advanced, JobProgress } from '../../../services/settle/progress.ts'
import { endedJob } from '../../support/webhooks/deliveries.ts'

const { preflight, counts } = endedJob()

function tallied (finishedRows: number, more: Partial<Job> = {}): Tallied {
  const job: Job = {
    ...endedJob(),
    preflight: { ...preflight, totalRows: 100 },
    counts: { ...counts, finishedRows },
    events: ['job.progress'],
    ended: false,
    closed: false,
    ...more,
  }
  return { kind: 'counted', ended: job.ended, job, entry: undefined }
}

const tenthsOf = ({ emits }: Advanced) => emits.map(({ value }) => value.tenth)

describe('progress', () => {
  it('is emitted once for each tenth, and of several in a batch the latest', () => {
    const progress = new JobProgress()
    const after = (...all: readonly Tallied[]) => {
      const advanced = progress.advance(all)
      advanced.remember()
      return tenthsOf(advanced)
    }
    expect(after(tallied(9))).toEqual([])
    expect(after(tallied(10), tallied(25), tallied(39))).toEqual([3])
    expect(after(tallied(39))).toEqual([])
    expect(after(tallied(40), tallied(3, { id: 'job_2' }), tallied(70, { id: 'job_3' })))
      .toEqual([4, 7])
  })

  it('has the time at which the rows were counted', () => {
    const { emits } = new JobProgress().advance([tallied(10, { updatedAtMs: 7 })])
    expect(emits.map(({ value }) => value.at)).toEqual([7])
  })

  it('is emitted again until it is acknowledged', () => {
    const progress = new JobProgress()
    expect(tenthsOf(progress.advance([tallied(50)]))).toEqual([5])
    const again = progress.advance([tallied(50)])
    expect(tenthsOf(again)).toEqual([5])
    again.remember()
    expect(tenthsOf(progress.advance([tallied(50)]))).toEqual([])
  })

  it('of a job that ends in the same batch, or that nobody follows, is not emitted', () => {
    const progress = new JobProgress()
    expect(tenthsOf(progress.advance([tallied(50), tallied(100, { ended: true })]))).toEqual([])
    const unfollowed = endedJob({ ended: false, closed: false })
    expect(tenthsOf(progress.advance([
      { kind: 'skip' }, { kind: 'counted', ended: false, job: unfollowed, entry: undefined },
    ]))).toEqual([])
    expect(tenthsOf(progress.advance([tallied(50, { events: ['job.accepted'] })]))).toEqual([])
  })
})
