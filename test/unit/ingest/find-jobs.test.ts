import { EventEmitter } from 'node:events'
import type { FastifyRequest } from 'fastify'
import { describe, expect, it } from 'vitest'
import {
  findReadable, findStoredResults, jobBodies, listLabeled, openJobHeader, readOpenJobs,
  waitForChange, whileConnected,
} from '../../../services/ingest/find-jobs.ts'
import { deriveHeaderKey, JobKeyLostError } from '../../../services/jobs/job-keys.ts'
import type { JobWait } from '../../../services/jobs/job-waiter.ts'
import type { Job } from '../../../services/jobs/job.ts'
import type { ListOptions } from '../../../services/jobs/results/archive.ts'
import { sealHeader } from '../../../services/jobs/message-codec.ts'
import { InfrastructureError } from '../../../services/runtime/platform/errors.ts'
import { application, closedJob, doubles, JOB_ID, jobOf, MANIFEST, NOW_MS } from './doubles.ts'

const TENANT = 'org_01.live'
const wanted = { tenant: TENANT, id: JOB_ID }
const closed = closedJob()
const archived = { job: closed, manifest: MANIFEST }
const unexpected = () => Promise.reject(new Error('unexpected call'))

describe('a job', () => {
  it('is shown without its metadata once it is erased, if it is closed', async () => {
    const calls: (readonly string[])[] = []
    const deps = doubles({
      findErasures: async (_tenant, jobs) => {
        calls.push(jobs)
        return new Map([[jobs[0] ?? '', { erasedAtMs: NOW_MS, completedAtMs: undefined }]])
      },
    })
    const other = closedJob({ id: `${JOB_ID.slice(0, -1)}9` })
    const bodies = await jobBodies(deps, TENANT, [jobOf({ id: 'job_1' }), closed, other])
    expect(calls).toEqual([[closed.id, other.id]])
    expect(bodies.map(({ id, erasedAt, metadata }) => [id, erasedAt, metadata])).toEqual([
      ['job_1', null, { team: 'blue' }],
      [closed.id, '2026-08-11T10:00:00.000Z', {}],
      [other.id, null, { team: 'blue' }],
    ])
    await jobBodies(deps, TENANT, [jobOf()])
    expect(calls).toHaveLength(1)
  })

  it('shows what waits while checks may follow', async () => {
    const asked: string[] = []
    const deps = doubles({
      waitingRows: async (_tenant, job) => {
        asked.push(job)
        return { rows: 3, reasons: { greylisted: 3 }, lastDueMs: NOW_MS, dueRows: 0 }
      },
    })
    const { preflight } = jobOf()
    const jobs = [
      jobOf({ id: 'job_1', status: 'verifying' }), jobOf({ id: 'job_2', status: 'cancelling' }),
      jobOf({ id: 'job_3', preflight: { ...preflight, freshChecks: 0 } }),
      closedJob({ id: 'job_4' }),
    ]
    const bodies = await jobBodies(deps, TENANT, jobs)
    expect(asked).toEqual(['job_1'])
    expect(bodies.map(({ waiting }) => waiting?.rows)).toEqual([3, undefined, undefined, undefined])
  })

  it('has labels that its key opens, none without the key, and an error in an outage', async () => {
    const sent = { metadata: { team: 'blue' }, webhookUrl: 'https://hooks.example.com/in' }
    const none = { metadata: {}, webhookUrl: '' }
    const key = Buffer.alloc(32, 3)
    const header = sealHeader(deriveHeaderKey(key), { tenant: TENANT, job: JOB_ID }, sent)
    const open = (get: () => Promise<Buffer | undefined>, job = closedJob({ header })) =>
      openJobHeader({ get }, job)
    expect(await open(async () => key)).toEqual(sent)
    expect(await open(unexpected, closed)).toEqual(none)
    expect(await open(async () => undefined)).toEqual(none)
    expect(await open(() => Promise.reject(new JobKeyLostError('gone')))).toEqual(none)
    await expect(open(() => Promise.reject(new InfrastructureError('away')))).rejects
      .toThrow('away')
  })
})

describe('the results of a job', () => {
  it('are read once they are stored, or later', async () => {
    const deps = doubles({
      readRecentJob: async () => ({ ...closed, closed: false }), findResults: async () => archived,
    })
    const read = (after: Job | undefined) => findReadable(
      { ...deps, waitForJob: async ({ isDone }) => after && isDone(after) ? after : undefined },
      { retentionMs: 10_000 }, wanted)
    expect(await read(closed)).toEqual(archived)
    await expect(read({ ...closed, closed: false })).rejects
      .toMatchObject({ fault: { code: 'temporarily_unavailable' } })
  })

  it('are in its record while that has its whole manifest, else in the archive', async () => {
    const ended = { job: jobOf({ ended: true }), manifest: MANIFEST }
    const partly = [undefined, { job: jobOf(), manifest: [] }, { ...ended, manifest: [] }]
    for (const recorded of [ended, ...partly]) {
      const readWithManifest = async () => recorded
      const stores = { store: { readWithManifest }, archive: { find: async () => archived } }
      expect(await findStoredResults(stores, TENANT, JOB_ID))
        .toEqual(recorded === ended ? ended : archived)
    }
  })
})

describe('a long poll', () => {
  const preparing = jobOf({ status: 'preparing' })

  /** An interface that shows a waiting request these states until one is enough for it. */
  function showing (...states: readonly Job[]) {
    const waits: JobWait[] = []
    const { get } = application({
      waitForJob: async wait => {
        waits.push(wait)
        return states.find(state => wait.isDone(state)) ?? states.at(-1)
      },
      readRecentJob: async () => states[0],
    })
    return { get, waits }
  }

  it('does not wait for a job that only the archive knows, or without a wait', async () => {
    const { get } = application({
      waitForJob: async () => undefined, findArchived: async () => archived,
    })
    expect((await get(`/jobs/${JOB_ID}?wait=20`)).json().status).toBe('completed')
    const { get: getNow, waits } = showing(preparing)
    for (const query of ['', '?wait=0', '?other=1']) {
      expect((await getNow(`/jobs/${JOB_ID}${query}`)).statusCode).toBe(200)
    }
    expect(waits).toEqual([])
  })
})

describe('a waiting request', () => {
  const socketOf = (more: object = {}) => Object.assign(new EventEmitter(), more)
  const requestOn = (socket: EventEmitter) => ({ raw: { socket } }) as unknown as FastifyRequest

  it.each(['end', 'close'])('stops waiting at the %s of its connection', async event => {
    const socket = socketOf()
    const wait = Promise.withResolvers<AbortSignal>()
    const done = whileConnected(requestOn(socket), async signal => {
      wait.resolve(signal)
      await new Promise(resolve => signal.addEventListener('abort', resolve))
      return 'over'
    })
    expect((await wait.promise).aborted).toBe(false)
    socket.emit(event)
    expect(await done).toBe('over')
  })

  it('leaves no listener on a connection that stays open', async () => {
    const socket = socketOf()
    const deps = doubles({ waitForJob: () => Promise.reject(new Error('broken')) })
    const waited = { tenant: TENANT, job: JOB_ID, timeoutMs: 1 }
    await expect(waitForChange(deps, requestOn(socket), waited)).rejects.toThrow('broken')
    expect(socket.eventNames()).toEqual([])
  })
})

describe('the jobs with labels', () => {
  const idOf = (number: number) => `job_01jd3v8zj7m5n2k4q6r8s${String(number).padStart(5, '0')}`
  const numberOf = (id: string) => Number(id.slice(-5))

  /** Jobs from this number down to 1; every `each`th one has the label. */
  function setUp (jobs: number, each: number) {
    const all = Array.from({ length: jobs }, (_, at) => closedJob({ id: idOf(jobs - at) }))
    let opened = 0
    const deps = doubles({
      listArchived: async (_tenant: string, { limit, before = '' }: ListOptions) =>
        all.filter(({ id }) => before === '' || id < before).slice(0, limit),
      openHeader: async ({ id }) => {
        opened += 1
        const metadata: Record<string, string> = numberOf(id) % each === 0
          ? { team: 'blue', n: id }
          : { team: 'red' }
        return { metadata, webhookUrl: '' }
      },
    })
    const list = async (after = '', labels: Record<string, string> = { team: 'blue' }) => {
      const filter = { limit: 2, after, status: '', service: '', labels } as const
      const page = await listLabeled(deps, TENANT, filter)
      return { ...page, data: page.data.map(({ id }) => numberOf(id)) }
    }
    return { list, opened: () => opened }
  }

  it('come by pages, newest first, each once, with all labels of the filter', async () => {
    const { list } = setUp(10, 3)
    const first = await list()
    expect(first).toEqual({ data: [9, 6], has_more: true, next_cursor: idOf(6) })
    expect(await list(first.next_cursor ?? ''))
      .toEqual({ data: [3], has_more: false, next_cursor: null })
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

it('open jobs are read a hundred at a time, without those that ended in between', async () => {
  const ids = Array.from({ length: 250 }, (_, at) => `job_${at}`)
  let [reading, most] = [0, 0]
  const jobs = await readOpenJobs({
    openJobs: async () => ids.map(job => ({ job, sinceMs: 0 })),
    read: async (_tenant, id) => {
      most = Math.max(most, ++reading)
      await Promise.resolve()
      reading--
      return id === 'job_7' ? undefined : jobOf({ id })
    },
  }, TENANT)
  expect(jobs.map(({ id }) => id)).toEqual(ids.filter(id => id !== 'job_7'))
  expect(most).toBe(100)
})
