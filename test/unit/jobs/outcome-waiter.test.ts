import { EventEmitter } from 'node:events'
import { describe, expect, it } from 'vitest'
import { subscribeToJobs, createOutcomeWaiter, isSafe } from '../../../services/jobs/job-waiter.ts'
import type { Job, Outcome } from '../../../services/jobs/job.ts'

const open: Outcome = { kind: 'open' }
const expired: Outcome = { kind: 'refused', refusal: { code: 'expired' } }
const accepted = (announced: boolean): Outcome =>
  ({ kind: 'accepted', job: { id: 'job_1', announced } as never })

/** Doubles of a store and a channel; `nowMs` past 50,000 is after `acceptBy`. */
async function setUp ({ pollMs = 60_000 } = {}) {
  const state = {
    outcome: open,
    refused: expired,
    archived: undefined as { readonly job: Job } | undefined,
    nowMs: 0,
    reads: 0,
    refusals: 0,
    onRead: () => {}
  }
  const channel = Object.assign(new EventEmitter(), { subscribe: async () => 1 })
  const store = {
    outcome: async () => {
      state.reads += 1
      queueMicrotask(state.onRead)
      return state.outcome
    },
    refuse: async () => {
      state.refusals += 1
      return state.refused
    },
  }
  const clock = { now: () => state.nowMs }
  const notifications = await subscribeToJobs(channel as never)
  const findArchived = async () => state.archived
  const outcomes = createOutcomeWaiter({ store, findArchived, notifications, clock, pollMs })
  const notify = (job = 'job_1') => channel.emit('message', 'outcomes', job)
  return { state, outcomes, notify }
}
const claim = { tenant: 'org_1.live', job: 'job_1', acceptByMs: 50_000 }

describe('a wait for an outcome', () => {
  it('reads again on a notification for its job, even one that arrives during a read', async () => {
    const { state, outcomes, notify } = await setUp()
    state.onRead = () => {
      state.outcome = accepted(state.reads > 1)
      notify()
    }
    expect(await outcomes.wait(claim)).toEqual(accepted(true))
    expect(state.reads).toBe(3)
  })

  it('ends with the final outcome in a notification, without a read', async () => {
    const { state, outcomes, notify } = await setUp()
    const waiting = outcomes.wait({ ...claim, isNew: true })
    const next = () => new Promise<void>(resolve => setImmediate(resolve))
    notify('job_1 {"acceptBy":"50000"}')
    await next()
    notify('job_1 {"refusal":"frozen"}')
    expect(await waiting).toEqual({ kind: 'refused', refusal: { code: 'frozen' } })
    expect(state.reads).toBe(1)
  })

  it('ends at acceptBy with the refusal it stores, or the job that is there by then', async () => {
    const { state, outcomes } = await setUp()
    state.nowMs = 50_000
    expect(await outcomes.wait(claim)).toBe(expired)
    state.refused = accepted(false)
    expect(await outcomes.wait(claim)).toEqual(accepted(false))
    expect(state.reads).toBe(0)
  })

  it('ends with the archived job where Redis has forgotten the claim', async () => {
    const { state, outcomes } = await setUp()
    state.nowMs = 50_000
    state.refused = { ...expired, forgotten: true } as Outcome
    expect(await outcomes.wait(claim)).toBe(state.refused)
    const job = { id: 'job_1', announced: false, closed: true } as Job
    state.archived = { job }
    expect(await outcomes.wait(claim)).toEqual({ kind: 'accepted', job })
  })

  it('does not report a job whose reservation only Redis has', async () => {
    const { state, outcomes } = await setUp({ pollMs: 1 })
    state.nowMs = 50_000
    const pending = { ...accepted(false), entry: { seq: 1 } } as Outcome
    state.refused = pending
    const shipped = outcomes.wait(claim)
    while (state.refusals < 3) await new Promise<void>(resolve => setImmediate(resolve))
    state.refused = accepted(false)
    expect(await shipped).toEqual(accepted(false))

    state.refused = pending
    const never = outcomes.wait(claim)
    state.nowMs = 60_001
    await expect(never).rejects.toThrow('job_1 is in Redis but not confirmed in wallet.journal')
    const closed = { kind: 'accepted', job: { announced: false, closed: true }, entry: {} } as never
    expect([isSafe(pending as never), isSafe(closed)]).toEqual([false, true])
  })

  it('ends when the service stops, and when its caller aborts', async () => {
    const { outcomes } = await setUp()
    const given = new AbortController()
    const one = outcomes.wait({ ...claim, signal: given.signal })
    const other = outcomes.wait({ ...claim, job: 'job_2' })
    given.abort(new Error('gone'))
    await expect(one).rejects.toThrow('gone')
    outcomes.stop()
    await expect(other).rejects.toThrow('the service is stopping')
  })
})
