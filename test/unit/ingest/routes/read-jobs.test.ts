import { describe, expect, it } from 'vitest'
import { listJobs, type ListFilter } from '../../../../services/ingest/find-jobs.ts'
import type { Job } from '../../../../services/jobs/job.ts'
import type { ListOptions } from '../../../../services/jobs/results/archive.ts'
import { application, closedJob, doubles, JOB_ID, jobOf } from '../doubles.ts'

describe('the route of a job', () => {
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

const idOf = (last: number) => `job_01jd3v8zj7m5n2k4q6r8s0t1w${last}`
const open = (last: number, more: Partial<Job> = {}) => jobOf({ id: idOf(last), ...more })
const closed = (last: number, more: Partial<Job> = {}) => closedJob({ id: idOf(last), ...more })
const all: ListFilter = { limit: 10, after: '', status: '', service: '' }

/** Lists with these jobs open and archived, and returns the numbers of those on the page. */
async function listed (
  { running = [], archived = [] }: { running?: readonly Job[], archived?: readonly Job[] },
  filter: Partial<ListFilter> = {}
) {
  const calls: ListOptions[] = []
  const page = await listJobs(doubles({
    openJobs: async () => running,
    listArchived: async (_tenant, options) => {
      calls.push(options)
      return archived
    },
  }), 'org_01.live', { ...all, ...filter })
  const numbers = page.jobs.map(({ id }) => Number(id.at(-1)))
  return { numbers, hasMore: page.hasMore, jobs: page.jobs, calls: calls[0] }
}

describe('a page of jobs', () => {
  it('merges both stores, newest first', async () => {
    const { numbers, hasMore } = await listed({
      running: [open(2), open(5)], archived: [closed(4), closed(3), closed(1)],
    })
    expect([numbers, hasMore]).toEqual([[5, 4, 3, 2, 1], false])
  })

  it('shows a job that both know once, as it is shown alone', async () => {
    const ended = open(3, { status: 'completed', ended: true })
    const { jobs } = await listed({ running: [ended], archived: [closed(3)] })
    expect(jobs).toEqual([ended])
    const running = open(3, { status: 'verifying' })
    const filtered = await listed({ running: [running], archived: [] }, { status: 'completed' })
    expect(filtered.jobs).toEqual([])
  })

  it('asks the archive for enough to fill a page, whatever is left out', async () => {
    const { calls } = await listed({ running: [open(1), open(2)] }, {
      limit: 4, after: idOf(9), status: 'cancelled', service: 'telegram',
    })
    expect(calls).toMatchObject({
      limit: 7, before: idOf(9), status: 'cancelled', service: 'telegram',
    })
  })

  it('ends at its limit and reports whether there are more', async () => {
    const running = [open(1), open(2), open(3)]
    expect(await listed({ running }, { limit: 2 }))
      .toMatchObject({ numbers: [3, 2], hasMore: true })
    expect(await listed({ running }, { limit: 3 }))
      .toMatchObject({ numbers: [3, 2, 1], hasMore: false })
  })

  it('leaves out what is newer than the cursor, of another status or service', async () => {
    const running = [open(1), open(2, { service: 'telegram' }), open(3, { status: 'verifying' })]
    expect((await listed({ running }, { after: idOf(3) })).numbers).toEqual([2, 1])
    expect((await listed({ running }, { status: 'verifying' })).numbers).toEqual([3])
    expect((await listed({ running }, { service: 'telegram' })).numbers).toEqual([2])
  })
})
