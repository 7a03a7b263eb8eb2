import { afterEach, describe, expect, it, vi } from 'vitest'
import type { IngestDeps } from '../../../../services/ingest/deps.ts'
import { type ListFilter, listJobs } from '../../../../services/ingest/find-jobs.ts'
import { EventStreams } from '../../../../services/ingest/limits/limiter.ts'
import type { ErasureRequest } from '../../../../services/jobs/erasures.ts'
import type { Job, ManifestEntry } from '../../../../services/jobs/job.ts'
import type { ListOptions } from '../../../../services/jobs/results/archive.ts'
import { eventually } from '../../../support/eventually.ts'
import {
  application, closedJob, doubles, JOB_ID, jobOf, listen, MANIFEST, NOW_MS, talk,
} from '../doubles.ts'

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

  it('asks the archive for enough to fill a page, whatever is left out', async () => {
    const { calls } = await listed({ running: [open(1), open(2)] }, {
      limit: 4, after: idOf(9), status: 'cancelled', service: 'telegram',
    })
    expect(calls).toMatchObject({
      limit: 7, before: idOf(9), status: 'cancelled', service: 'telegram',
    })
  })
})

afterEach(() => { vi.restoreAllMocks() })

const block = (order: number): ManifestEntry => ({
  ...MANIFEST[0]!, digest: String(order).padStart(64, '0'), chunk: order, order,
})
const blocks = (count: number) => Array.from({ length: count }, (_, index) => block(index + 1))

type Seen = { readonly job: Job, readonly manifest: readonly ManifestEntry[] }

/** A job that is in one of these states at each look; 20 seconds pass between two. */
function following (...states: readonly [Seen, ...Seen[]]): Partial<IngestDeps> {
  let passedMs = 0
  let looks = 0
  const now = performance.now.bind(performance)
  vi.spyOn(performance, 'now').mockImplementation(() => now() + passedMs)
  return {
    readWithManifest: async () => states[Math.min(looks++, states.length - 1)],
    waitForJob: async () => {
      passedMs += 20_000
      return undefined
    },
  }
}

type Event = {
  readonly id: string
  readonly type: string
  readonly data: { readonly status: string, readonly finished: readonly { block: number }[] }
}

const eventsIn = (text: string): readonly Event[] =>
  [...text.matchAll(/^id: (.+)\nevent: (.+)\ndata: (.+)\n\n/gm)]
    .map(([, id = '', type = '', data = '']) => ({ id, type, data: JSON.parse(data) }))
const finishedIn = (events: readonly Event[]) =>
  events.map(({ data }) => data.finished.map(each => each.block))

const path = `/jobs/${JOB_ID}/events`

describe('the events of a job', () => {
  it('name at most 100 blocks each, and continue after any of them', async () => {
    const { get } = application(following({ job: closedJob(), manifest: blocks(250) }))
    const answer = await get(path)
    const events = eventsIn(answer.body)
    expect(events.map(({ type }) => type)).toEqual(['progress', 'progress', 'progress', 'end'])
    expect(finishedIn(events).flat()).toEqual(blocks(250).map(({ order }) => order))
    for (const [index, { id }] of events.entries()) {
      const rest = await get(path, { headers: { 'last-event-id': id } })
      expect(eventsIn(rest.body)).toEqual(events.slice(index + 1))
      expect(rest.statusCode).toBe(index === 3 ? 204 : 200)
    }
  })

  it('come at each change of status or rows, with a comment while nothing changes', async () => {
    const [running, ended] = [jobOf({ status: 'verifying' }), closedJob({ closed: false })]
    const { get } = application(following(
      { job: jobOf(), manifest: [] },
      { job: running, manifest: blocks(1) },
      { job: running, manifest: blocks(1) },
      // Its blocks are counted again.
      { job: running, manifest: [] },
      { job: running, manifest: blocks(3) },
      { job: ended, manifest: blocks(3) },
      { job: closedJob(), manifest: blocks(3) },
    ))
    const { body } = await get(path)
    const events = eventsIn(body)
    expect(events.map(({ type, data }) => [type, data.status])).toEqual([
      ['progress', 'queued'], ['progress', 'verifying'], ['progress', 'verifying'],
      ['progress', 'completed'], ['end', 'completed'],
    ])
    expect(finishedIn(events)).toEqual([[], [1], [2, 3], [], []])
    expect(body.match(/^: .+$/gm)).toHaveLength(3)
  })

  it('stop and are refused once blocks were counted again in another order', async () => {
    const job = jobOf({ status: 'verifying' })
    const moved = [{ ...block(2), order: 1 }, { ...block(1), order: 2 }]
    const { get } = application(following({ job, manifest: blocks(1) }, { job, manifest: moved }))
    const events = eventsIn((await get(path)).body)
    expect(events.map(({ type }) => type)).toEqual(['progress'])
    const answer = await get(path, { headers: { 'last-event-id': events[0]!.id } })
    expect([answer.statusCode, answer.json().error.code]).toEqual([409, 'cursor_moved'])
  })

  it('end when the key is revoked, and are refused then', async () => {
    let isRevoked = false
    const { findKey } = doubles()
    const { get } = application({
      ...following({ job: jobOf(), manifest: [] }, { job: closedJob(), manifest: blocks(1) }),
      findKey: async (...key) => isRevoked ? { kind: 'revoked' } : await findKey(...key),
      waitForJob: async () => {
        isRevoked = true
        return undefined
      },
    })
    expect(finishedIn(eventsIn((await get(path)).body))).toEqual([[]])
    expect((await get(path)).json().error.code).toBe('revoked_key')
  })

  it('leave their place when the client has gone before they begin', async () => {
    const eventStreams = new EventStreams({ capacity: 1, maxPerName: 1 })
    const opened = vi.spyOn(eventStreams, 'open')
    const { app } = application({
      eventStreams,
      readWithManifest: async () => {
        client.resetAndDestroy()
        await gone.promise
        return { job: jobOf(), manifest: [] }
      },
      waitForJob: async () => undefined,
    })
    const gone = Promise.withResolvers<void>()
    app.server.once('connection', socket => { socket.once('close', () => gone.resolve()) })
    const { socket: client } = talk(await listen(app),
      `GET /api/v1${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer live\r\n\r\n`)
    await eventually(() => expect(opened).toHaveBeenCalled())
    await vi.waitFor(() => expect(eventStreams.total).toBe(0))
  })
})

it('event streams are shared fairly: the newest of who has most is closed for another', () => {
  const streams = new EventStreams({ capacity: 3, maxPerName: 3 })
  const [first, second, third] = [1, 2, 3].map(() => streams.open('org_1'))
  expect(streams.open('org_1')).toBeUndefined()
  const other = streams.open('org_2')
  expect([first, second, third, other].map(stream => stream?.signal.aborted))
    .toEqual([false, false, true, false])
  expect(streams.open('org_1')).toBeUndefined()
  expect(streams.total).toBe(3)
  second?.release()
  expect(streams.total).toBe(2)
  expect(streams.open('org_1')?.signal.aborted).toBe(false)
  streams.stop()
  expect([first, other].map(stream => stream?.signal.aborted)).toEqual([true, true])
})

async function erase (
  { path = `/jobs/${JOB_ID}`, key = 'live', ...more }:
  Partial<IngestDeps> & { readonly path?: string, readonly key?: string } = {}
) {
  const requests: ErasureRequest[] = []
  const { send } = application({
    readRecentJob: async () => closedJob(),
    erase: async request => {
      requests.push(request)
      return { erasedAtMs: NOW_MS, completedAtMs: undefined }
    },
    ...more,
  })
  const answer = await send('DELETE', path, { key })
  const body = answer.json()
  return { requests, body, outcome: [answer.statusCode, body.error?.code ?? body.status] }
}

it('the route that erases a job ' +
  'refuses a job that has not ended, and finds only jobs of the caller', async () => {
  const { readRecentJob } = doubles()
  const running = await erase({ readRecentJob })
  expect([running.outcome, running.requests]).toEqual([[409, 'job_not_ended'], []])
  // Its rows would be stored after the erasure.
  const unstored = await erase({ readRecentJob: async () => ({ ...closedJob(), closed: false }) })
  expect([unstored.outcome, unstored.requests]).toEqual([[503, 'temporarily_unavailable'], []])
  expect((await erase({ readRecentJob: async () => undefined })).outcome)
    .toEqual([404, 'job_not_found'])
  expect((await erase({ readRecentJob, key: 'test' })).outcome).toEqual([404, 'job_not_found'])
  expect((await erase({ path: '/jobs/x' })).outcome).toEqual([404, 'job_not_found'])
})
