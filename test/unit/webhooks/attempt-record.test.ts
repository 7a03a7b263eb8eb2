import { describe, expect, it } from 'vitest'
import { attemptRecordOf, waitMs } from '../../../services/webhooks/attempt.ts'
import { WAITS_MS } from '../../../services/deliver/config.ts'
import type { Answer } from '../../../services/webhooks/sender.ts'
import { DELIVERED_JOB, DELIVERED_TENANT } from '../../support/webhooks/deliveries.ts'

const deps = {
  clock: { now: () => 1_020 }, waitsMs: [500], slowAfterMs: 1_000, random: () => 0.5,
}
const claim = {
  tenant: DELIVERED_TENANT,
  job: DELIVERED_JOB,
  event: 'evt_1',
  type: 'job.completed',
  attempt: 1,
  once: false,
  token: 't',
} as const

const recordOf = (answer: Answer, attempt = 1) =>
  attemptRecordOf(deps, { ...claim, attempt }, { answer, durationMs: 20, atMs: 1_000 })

describe('the record of a webhook attempt', () => {
  it('has the time of the next attempt, counted from now', () => {
    const { tenant, job, event, type } = claim
    expect(recordOf({ kind: 'failed', reason: 'timeout' })).toEqual({
      state: 'waiting',
      priority: 'quick',
      dueAtMs: 1_520,
      attempt: {
        tenant,
        job,
        event,
        attempt: 1,
        type,
        atMs: 1_000,
        outcome: 'failed',
        reason: 'timeout',
        httpStatus: 0,
        durationMs: 20,
        nextAtMs: 1_520,
      },
    })
  })

  it.each([
    [{ kind: 'answered', status: 204, retryAfterMs: undefined }, 'delivered', ''],
    [{ kind: 'answered', status: 410, retryAfterMs: undefined }, 'gone', 'status'],
    [{ kind: 'failed', reason: 'erased' }, 'discarded', 'erased'],
  ] as const)('has no next attempt after %j, which is final: %s', (answer, outcome, reason) => {
    const record = recordOf(answer)
    expect(record).toMatchObject({ state: outcome, attempt: { outcome, reason } })
    expect(record.dueAtMs).toBe(undefined)
  })

  it('has no next attempt after the last wait of the schedule', () => {
    const record = recordOf({ kind: 'answered', status: 301, retryAfterMs: undefined }, 2)
    expect(record).toMatchObject({ state: 'exhausted', attempt: { reason: 'redirect' } })
    expect(record.dueAtMs).toBe(undefined)
  })
})

const exact = { waitsMs: WAITS_MS, random: () => 0.5 }

describe('the webhook retry schedule', () => {
  it('has ten attempts in 75 h 35 min', () => {
    expect(WAITS_MS.map(ms => ms / 1_000))
      .toEqual([5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400])
    const total = WAITS_MS.reduce((sum, ms) => sum + ms, 0)
    expect(total).toBe((75 * 60 + 35) * 60_000 + 5_000)
    expect(WAITS_MS.map((_, index) => waitMs(index + 1, exact))).toEqual(WAITS_MS)
    expect(waitMs(10, exact)).toBeUndefined()
  })

  it('varies each wait by at most 20 %', () => {
    expect([0, 0.25, 1].map(random => waitMs(1, { ...exact, random: () => random })))
      .toEqual([4_000, 4_500, 6_000])
  })

  it('grants the Retry-After of a receiver, up to twice the scheduled wait', () => {
    const waits = [0, 7_000, 60_000, undefined].map(retryAfterMs =>
      waitMs(1, { ...exact, retryAfterMs }))
    expect(waits).toEqual([5_000, 7_000, 10_000, 5_000])
  })

  it('uses the configured waits', () => {
    expect([1, 2].map(attempt => waitMs(attempt, { ...exact, waitsMs: [10] })))
      .toEqual([10, undefined])
  })
})
