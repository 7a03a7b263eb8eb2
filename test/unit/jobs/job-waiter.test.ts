import { EventEmitter } from 'node:events'
import { afterEach, describe, expect, it, vi } from 'vitest'
import type { Job, Outcome } from '../../../services/jobs/job.ts'
import { toRecord } from '../../../services/jobs/job-record.ts'
import {
  JobWaiter, type JobWait, subscribeToJobs, OutcomeWaiter, isSafe,
} from '../../../services/jobs/job-waiter.ts'
import { endedJob } from '../../support/webhooks/deliveries.ts'

const running = { id: 'job_1', closed: false } as Job
const closed = { id: 'job_1', closed: true } as Job

/** Notifications that a test sends. */
async function openChannel () {
  const channel = Object.assign(new EventEmitter(), { subscribe: async () => 1 })
  const notify = (message = 'job_1') => channel.emit('message', 'outcomes', message)
  return { notify, notifications: await subscribeToJobs(channel as never) }
}

/** A waiter over a channel and a store that counts its reads. */
async function setUp ({ pollMs = 60_000, maxWaits = 10, maxWaitsPerTenant = 10 } = {}) {
  const state = { job: running as Job | undefined, reads: 0, onRead: () => {} }
  const { notify, notifications } = await openChannel()
  const read = async () => {
    state.reads += 1
    queueMicrotask(state.onRead)
    return state.job
  }
  const waiter = new JobWaiter({
    store: { read }, notifications, pollMs, maxWaits, maxWaitsPerTenant,
  })
  const wait = (more: Partial<JobWait> = {}) => waiter.wait({
    tenant: 'org_1.live', job: 'job_1', isDone: job => job.closed, timeoutMs: 60_000, ...more,
  })
  return { state, waiter, notify, wait, inlineResultsOf: notifications.inlineResultsOf }
}

afterEach(() => { vi.useRealTimers() })
const tick = () => new Promise<void>(resolve => setImmediate(resolve))

describe('a wait for a job', () => {
  it('keeps the inline results of a job, also before anybody waits', async () => {
    const { notify, inlineResultsOf, wait } = await setUp()
    notify('job_1 {}\n[some blocks]')
    notify()
    const isDone = ({ id }: Job) => inlineResultsOf(id) !== ''
    expect(await wait({ isDone })).toBe(running)
    expect([inlineResultsOf('job_1'), inlineResultsOf('job_2')]).toEqual(['[some blocks]', ''])
  })

  it('ends with the record in a notification of the end, without a read', async () => {
    const { state, notify, wait } = await setUp()
    const waiting = wait()
    await tick()
    const record = (more: object) => {
      const pairs = toRecord(endedJob())
      const all = Object.fromEntries(pairs.flatMap((name, at) =>
        at % 2 === 0 ? [[name, pairs[at + 1]]] : []))
      return `job_1 ${JSON.stringify({ ...all, ...more })}`
    }
    // It may be older than what was read.
    notify(record({ ended: '0', closed: '1' }))
    await tick()
    notify(record({ ended: '1', closed: '1', status: 'failed' }))
    expect(await waiting).toMatchObject({ id: endedJob().id, status: 'failed', closed: true })
    expect(state.reads).toBe(2)
  })

  it('does without notifications', async () => {
    const { state, wait } = await setUp({ pollMs: 1 })
    state.onRead = () => { if (state.reads === 3) state.job = closed }
    expect(await wait()).toBe(closed)
    expect(state.reads).toBe(4)
  })

  it('ends after its time with the latest state', async () => {
    const { state, wait } = await setUp()
    expect(await wait({ timeoutMs: 0 })).toBe(running)
    const later = { ...running, chunks: 2 }
    vi.useFakeTimers({ toFake: ['performance'] })
    state.onRead = () => {
      state.job = later
      if (state.reads === 3) vi.advanceTimersByTime(5)
    }
    expect(await wait({ timeoutMs: 5 })).toBe(later)
    expect(state.reads).toBe(3)
  })

  it('ends when its caller aborts, and when the service stops', async () => {
    const { waiter, wait } = await setUp()
    const given = new AbortController()
    const one = wait({ signal: given.signal })
    const other = wait({ job: 'job_2' })
    given.abort()
    expect(await one).toBe(running)
    waiter.stop()
    expect(await other).toBe(running)
    expect(await wait()).toBe(running)
  })

  it('above the maximum of an organization or of the process reads once', async () => {
    const { waiter, wait } = await setUp({ maxWaits: 3, maxWaitsPerTenant: 2 })
    const waiting = [wait(), wait({ tenant: 'org_1.test' }), wait({ tenant: 'org_2.live' })]
    await tick()
    expect(await wait()).toBe(running)
    // The latest one of the organization with most ends for that of another.
    waiting.push(wait({ tenant: 'org_3.live' }))
    expect(await waiting[1]).toBe(running)
    expect(await wait({ tenant: 'org_4.live' })).toBe(running)
    expect(waiter.waits).toBe(3)
    waiter.stop()
    await Promise.all(waiting)
    expect(waiter.waits).toBe(0)
  })

  it('frees its slot at its end, even if it fails', async () => {
    const { state, notify, wait } = await setUp({ maxWaits: 1 })
    const isDone = () => { throw new Error('broken') }
    await expect(wait({ isDone })).rejects.toThrow('broken')
    for (let round = 0; round < 2; round++) {
      state.job = running
      const waiting = wait()
      await tick()
      state.job = closed
      notify()
      expect(await waiting).toBe(closed)
    }
  })
})

const open: Outcome = { kind: 'open' }
const expired: Outcome = { kind: 'refused', refusal: { code: 'expired' } }
const accepted = (announced: boolean): Outcome =>
  ({ kind: 'accepted', job: { id: 'job_1', announced } as never })

/** Doubles of a store and a channel; `nowMs` past 50,000 is after `acceptBy`. */
async function setUpOutcomes ({ pollMs = 60_000 } = {}) {
  const state = {
    outcome: open,
    refused: expired,
    archived: undefined as { readonly job: Job } | undefined,
    nowMs: 0,
    reads: 0,
    refusals: 0,
    onRead: () => {}
  }
  const { notify, notifications } = await openChannel()
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
  const findArchived = async () => state.archived
  const outcomes = new OutcomeWaiter({ store, findArchived, notifications, clock, pollMs })
  return { state, outcomes, notify }
}
const claim = { tenant: 'org_1.live', job: 'job_1', acceptByMs: 50_000 }

describe('a wait for an outcome', () => {
  it('reads again on a notification for its job, even one that arrives during a read', async () => {
    const { state, outcomes, notify } = await setUpOutcomes()
    state.onRead = () => {
      state.outcome = accepted(state.reads > 1)
      notify()
    }
    expect(await outcomes.wait(claim)).toEqual(accepted(true))
    expect(state.reads).toBe(3)
  })

  it('ends with the final outcome in a notification, without a read', async () => {
    const { state, outcomes, notify } = await setUpOutcomes()
    const waiting = outcomes.wait({ ...claim, isNew: true })
    notify('job_1 {"acceptBy":"50000"}')
    await tick()
    notify('job_1 {"refusal":"frozen"}')
    expect(await waiting).toEqual({ kind: 'refused', refusal: { code: 'frozen' } })
    expect(state.reads).toBe(1)
  })

  it('ends at acceptBy with the refusal it stores, or the job that is there by then', async () => {
    const { state, outcomes } = await setUpOutcomes()
    state.nowMs = 50_000
    expect(await outcomes.wait(claim)).toBe(expired)
    state.refused = accepted(false)
    expect(await outcomes.wait(claim)).toEqual(accepted(false))
    expect(state.reads).toBe(0)
  })

  it('ends with the archived job where Redis has forgotten the claim', async () => {
    const { state, outcomes } = await setUpOutcomes()
    state.nowMs = 50_000
    state.refused = { ...expired, forgotten: true } as Outcome
    expect(await outcomes.wait(claim)).toBe(state.refused)
    const job = { id: 'job_1', announced: false, closed: true } as Job
    state.archived = { job }
    expect(await outcomes.wait(claim)).toEqual({ kind: 'accepted', job })
  })

  it('does not report a job whose reservation only Redis has', async () => {
    const { state, outcomes } = await setUpOutcomes({ pollMs: 1 })
    state.nowMs = 50_000
    const pending = { ...accepted(false), entry: { seq: 1 } } as Outcome
    state.refused = pending
    const shipped = outcomes.wait(claim)
    while (state.refusals < 3) await tick()
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
    const { outcomes } = await setUpOutcomes()
    const given = new AbortController()
    const one = outcomes.wait({ ...claim, signal: given.signal })
    const other = outcomes.wait({ ...claim, job: 'job_2' })
    given.abort(new Error('gone'))
    await expect(one).rejects.toThrow('gone')
    outcomes.stop()
    await expect(other).rejects.toThrow('the service is stopping')
  })
})
