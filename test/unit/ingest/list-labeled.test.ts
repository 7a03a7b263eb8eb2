import { describe, expect, it } from 'vitest'
import { listLabeled } from '../../../services/ingest/list-jobs.ts'
import type { Job } from '../../../services/jobs/job.ts'
import type { ListOptions } from '../../../services/jobs/results/archive.ts'
import { application, closedJob, jobOf, NOW_MS } from './doubles.ts'

const idOf = (number: number) => `job_01jd3v8zj7m5n2k4q6r8s${String(number).padStart(5, '0')}`
const numberOf = (id: string) => Number(id.slice(-5))
const filter = { limit: 2, after: '', status: '', service: '' } as const

/** Jobs from this number down to 1; every `each`th one has the label. */
function setUp (jobs: number, each: number) {
  const all = Array.from({ length: jobs }, (_, at) => closedJob({ id: idOf(jobs - at) }))
  let opened = 0
  const deps = {
    openJobs: async () => [],
    listArchived: async (_tenant: string, { limit, before = '' }: ListOptions) =>
      all.filter(({ id }) => before === '' || id < before).slice(0, limit),
    findErasures: async () => new Map(),
    openHeader: async ({ id }: Job) => {
      opened += 1
      const metadata: Record<string, string> = numberOf(id) % each === 0
        ? { team: 'blue', n: id }
        : { team: 'red' }
      return { metadata, webhookUrl: '' }
    },
  }
  const list = async (after = '', labels: Record<string, string> = { team: 'blue' }) => {
    const page = await listLabeled(deps, 'org_01.live', { ...filter, after, labels })
    return { ...page, data: page.data.map(({ id }) => numberOf(id)) }
  }
  return { list, opened: () => opened }
}

describe('the jobs with labels', () => {
  it('come by pages, newest first, each once', async () => {
    const { list } = setUp(10, 3)
    const first = await list()
    expect(first).toEqual({ data: [9, 6], has_more: true, next_cursor: idOf(6) })
    expect(await list(first.next_cursor ?? ''))
      .toEqual({ data: [3], has_more: false, next_cursor: null })
  })

  it('have all labels of the filter', async () => {
    const { list } = setUp(10, 3)
    expect((await list('', { team: 'blue', n: idOf(3) })).data).toEqual([3])
    expect((await list('', { toString: 'x' })).data).toEqual([])
  })

  it('are searched so far that a request stays cheap, and a cursor continues', async () => {
    const { list, opened } = setUp(1_200, 1_100)
    const first = await list()
    expect(first).toEqual({ data: [1_100], has_more: true, next_cursor: idOf(701) })
    expect(opened()).toBe(500)
    const second = await list(first.next_cursor ?? '')
    expect(second).toEqual({ data: [], has_more: true, next_cursor: idOf(201) })
    expect(await list(second.next_cursor ?? ''))
      .toEqual({ data: [], has_more: false, next_cursor: null })
  })
})

describe('the filters of the list of jobs', () => {
  it('are passed to the archive, and apply to open jobs', async () => {
    const calls: ListOptions[] = []
    const { get } = application({
      openJobs: async () => [jobOf()],
      listArchived: async (_tenant, options) => { calls.push(options); return [] },
    })
    const from = '2026-08-11T09:59:55.000Z'
    const inside = await get(`/jobs?created_from=${from}&created_to=2026-08-11`)
    expect(inside.json().data).toHaveLength(1)
    expect(calls[0])
      .toMatchObject({ fromMs: NOW_MS - 5_000, toMs: Date.parse('2026-08-12T00:00:00Z') })
    expect((await get(`/jobs?created_to=${from}`)).json().data).toEqual([])
  })

  it('take labels in brackets', async () => {
    const { get } = application({ openJobs: async () => [jobOf()] })
    expect((await get('/jobs?metadata[team]=blue')).json().data).toHaveLength(1)
    expect((await get('/jobs?metadata%5Bteam%5D=red')).json().data).toEqual([])
    expect((await get('/jobs?metadata[__proto__]=x')).json().data).toEqual([])
    expect((await get('/jobs?metadata=x')).statusCode).toBe(400)
  })
})
