import { connect } from 'node:net'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { EventStreams } from '../../../../services/ingest/limits/limiter.ts'
import type { IngestDeps } from '../../../../services/ingest/deps.ts'
import type { Job, ManifestEntry } from '../../../../services/jobs/job.ts'
import { eventually } from '../../../support/eventually.ts'
import { application, closedJob, doubles, JOB_ID, jobOf, MANIFEST } from '../doubles.ts'

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

  it('end when the service stops, and their place is free', async () => {
    const eventStreams = new EventStreams({ capacity: 1, maxPerName: 1 })
    const { get } = application({
      ...following({ job: jobOf(), manifest: [] }),
      eventStreams,
      waitForJob: async () => {
        eventStreams.stop()
        return undefined
      },
    })
    for (const attempt of [1, 2]) {
      const answer = await get(path)
      expect([attempt, answer.statusCode, eventsIn(answer.body).length]).toEqual([attempt, 200, 1])
      expect(eventStreams.total).toBe(0)
    }
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
    const port = Number(new URL(await app.listen({ port: 0, host: '127.0.0.1' })).port)
    const client = connect(port, '127.0.0.1')
    client.write(
      `GET /api/v1${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer live\r\n\r\n`)
    await eventually(() => expect(opened).toHaveBeenCalled())
    await vi.waitFor(() => expect(eventStreams.total).toBe(0))
    await app.close()
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
