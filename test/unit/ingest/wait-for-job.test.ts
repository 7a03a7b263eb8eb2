import { EventEmitter } from 'node:events'
import type { FastifyRequest } from 'fastify'
import { describe, expect, it } from 'vitest'
import { waitForChange, whileConnected } from '../../../services/ingest/find-job.ts'
import type { Job } from '../../../services/jobs/job.ts'
import type { JobWait } from '../../../services/jobs/job-waiter.ts'
import { application, closedJob, JOB_ID, jobOf } from './doubles.ts'

const socketOf = (more: object = {}) => Object.assign(new EventEmitter(), more)
const requestOn = (socket: EventEmitter) => ({ raw: { socket } }) as unknown as FastifyRequest

/** An interface that shows a waiting request these states until one is enough for it. */
function showing (...states: readonly Job[]) {
  const waits: JobWait[] = []
  const { get } = application({
    waitForJob: async wait => {
      waits.push(wait)
      return states.find(state => wait.isDone(state)) ?? states.at(-1)
    },
    readJob: async () => states[0],
  })
  return { get, waits }
}

describe('a long poll', () => {
  const preparing = jobOf({ status: 'preparing' })

  it('is answered when the visible status changes', async () => {
    // An ended job still shows what it was before.
    const ended = jobOf({ status: 'completed', ended: true })
    const { get, waits } = showing(jobOf({ status: 'verifying' }), ended, closedJob())
    const answer = await get(`/jobs/${JOB_ID}?wait=20`)
    expect([answer.statusCode, answer.json().status]).toEqual([200, 'completed'])
    expect(waits).toMatchObject([{ tenant: 'org_01.live', job: JOB_ID, timeoutMs: 20_000 }])
    const cancelling = await showing(preparing, jobOf({ status: 'cancelling' }))
      .get(`/jobs/${JOB_ID}?wait=1`)
    expect(cancelling.json().status).toBe('cancelling')
  })

  it('is answered at once for a job that has ended', async () => {
    const { get } = showing(closedJob(), preparing)
    expect((await get(`/jobs/${JOB_ID}?wait=20`)).json().status).toBe('completed')
  })

  it('is answered with the latest counts at the end of the wait', async () => {
    const more = jobOf({ status: 'preparing', counts: { ...jobOf().counts, finishedRows: 9 } })
    const answer = await showing(preparing, more).get(`/jobs/${JOB_ID}?wait=1`)
    expect(answer.json()).toMatchObject({ status: 'preparing', progressPercent: 90 })
  })

  it('of a job that only the archive knows does not wait', async () => {
    const { get } = application({
      waitForJob: async () => undefined,
      findArchived: async () => ({ job: closedJob(), manifest: [] }),
    })
    expect((await get(`/jobs/${JOB_ID}?wait=20`)).json().status).toBe('completed')
    const unknown = await application({ waitForJob: async () => undefined })
      .get(`/jobs/${JOB_ID}?wait=20`)
    expect([unknown.statusCode, unknown.json().error.code]).toEqual([404, 'job_not_found'])
  })

  it('without a wait is none', async () => {
    const { get, waits } = showing(preparing)
    for (const query of ['', '?wait=0', '?other=1']) {
      expect((await get(`/jobs/${JOB_ID}${query}`)).statusCode).toBe(200)
    }
    expect(waits).toEqual([])
  })

  const wrong = ['-1', '26', '1.5', 'x', '', '1&wait=2', '0x10']
  it.each(wrong)('of %s seconds is refused', async wait => {
    const { get, waits } = showing(preparing)
    const answer = await get(`/jobs/${JOB_ID}?wait=${wait}`)
    expect([answer.statusCode, answer.json().error.code]).toEqual([400, 'invalid_request'])
    expect(answer.json().error.param).toBe('wait')
    expect(waits).toEqual([])
  })
})

describe('a waiting request', () => {
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

  it('does not begin to wait on a closed connection', async () => {
    for (const state of [{ readableEnded: true }, { destroyed: true }]) {
      const request = requestOn(socketOf(state))
      expect(await whileConnected(request, async signal => signal.aborted)).toBe(true)
    }
  })

  it('leaves no listener on a connection that stays open', async () => {
    const socket = socketOf()
    const deps = { waitForJob: () => Promise.reject(new Error('broken')) }
    const wanted = { tenant: 'org_01.live', job: JOB_ID, timeoutMs: 1 }
    await expect(waitForChange(deps, requestOn(socket), wanted)).rejects.toThrow('broken')
    expect(socket.eventNames()).toEqual([])
  })
})
