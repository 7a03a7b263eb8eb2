import { EventEmitter } from 'node:events'
import type { Redis } from 'ioredis'
import { describe, expect, it } from 'vitest'
import { createOutcomeWaiter, isSafe } from '../../../services/jobs/outcome-waiter.ts'
import type { Job } from '../../../services/jobs/job.ts'
import type { Outcome } from '../../../services/jobs/store.ts'

const open: Outcome = { kind: 'open' }
const expired: Outcome = { kind: 'refused', refusal: { code: 'expired' } }
const accepted = (announced: boolean): Outcome =>
  ({ kind: 'accepted', job: { id: 'job_1', announced } as never })

/** A store and a channel by hand; `late` moves the clock past `acceptBy`. */
async function setUp ({ pollMs = 60_000 } = {}) {
  const world = {
    outcome: open,
    refused: expired,
    archived: undefined as { readonly job: Job } | undefined,
    nowMs: 0,
    asked: 0,
    refusals: 0,
    onAsked: () => {}
  }
  const channel = Object.assign(new EventEmitter(), { subscribe: async () => 1 })
  const store = {
    outcome: async () => {
      world.asked += 1
      queueMicrotask(world.onAsked)
      return world.outcome
    },
    refuse: async () => {
      world.refusals += 1
      return world.refused
    },
  }
  const clock = { now: () => world.nowMs }
  const subscriber = channel as unknown as Redis
  const findArchived = async () => world.archived
  const outcomes = await createOutcomeWaiter({ store, findArchived, subscriber, clock, pollMs })
  const nudge = (job = 'job_1') => channel.emit('message', 'outcomes', job)
  return { world, outcomes, nudge }
}
const claim = { tenant: 'org_1.live', job: 'job_1', acceptByMs: 50_000 }

describe('a wait for an outcome', () => {
  it('ends with what is stored already', async () => {
    const { world, outcomes } = await setUp()
    world.outcome = accepted(true)
    expect(await outcomes.wait(claim)).toBe(world.outcome)
    world.outcome = { kind: 'refused', refusal: { code: 'concurrent_jobs_limit' } }
    expect(await outcomes.wait(claim)).toBe(world.outcome)
    expect(world.refusals).toBe(0)
  })

  it('looks again at a nudge for its job, even one that comes while it looks', async () => {
    const { world, outcomes, nudge } = await setUp()
    world.onAsked = () => {
      world.outcome = accepted(world.asked > 1)
      nudge()
    }
    expect(await outcomes.wait(claim)).toEqual(accepted(true))
    expect(world.asked).toBe(3)
  })

  it('does without nudges', async () => {
    const { world, outcomes } = await setUp({ pollMs: 1 })
    world.onAsked = () => {
      if (world.asked === 3) world.outcome = accepted(true)
    }
    expect(await outcomes.wait(claim)).toEqual(accepted(true))
    expect(world.asked).toBe(4)
  })

  it('ends at acceptBy with the refusal it stores, or the job that is there by then', async () => {
    const { world, outcomes } = await setUp()
    world.nowMs = 50_000
    expect(await outcomes.wait(claim)).toBe(expired)
    world.refused = accepted(false)
    expect(await outcomes.wait(claim)).toEqual(accepted(false))
    expect(world.asked).toBe(0)
  })

  it('ends with the archived job where Redis has forgotten the claim', async () => {
    const { world, outcomes } = await setUp()
    world.nowMs = 50_000
    world.refused = { ...expired, forgotten: true } as Outcome
    expect(await outcomes.wait(claim)).toBe(world.refused)
    const job = { id: 'job_1', announced: false, closed: true } as Job
    world.archived = { job }
    expect(await outcomes.wait(claim)).toEqual({ kind: 'accepted', job })
  })

  it('tells of no job whose reservation Redis alone has', async () => {
    const { world, outcomes } = await setUp({ pollMs: 1 })
    world.nowMs = 50_000
    const pending = { ...accepted(false), entry: { seq: 1 } } as Outcome
    world.refused = pending
    const shipped = outcomes.wait(claim)
    while (world.refusals < 3) await new Promise<void>(resolve => setImmediate(resolve))
    world.refused = accepted(false)
    expect(await shipped).toEqual(accepted(false))

    world.refused = pending
    const never = outcomes.wait(claim)
    world.nowMs = 60_001
    await expect(never).rejects.toThrow('not in the journal yet')
    const closed = { kind: 'accepted', job: { announced: false, closed: true }, entry: {} } as never
    expect([isSafe(pending as never), isSafe(closed)]).toEqual([false, true])
  })

  it('asks again when Redis says that acceptBy is still to come', async () => {
    const { world, outcomes } = await setUp()
    world.nowMs = 50_000
    world.refused = open
    const waiting = outcomes.wait(claim)
    await new Promise<void>(resolve => setImmediate(resolve))
    world.refused = expired
    expect(await waiting).toBe(expired)
    expect(world.refusals).toBe(2)
  })

  it('ends when the service stops, and when its caller gives up', async () => {
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
