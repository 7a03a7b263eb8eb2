import { describe, expect, it } from 'vitest'
import type { Answer } from '../../../services/deliver/attempt.ts'
import { noteOf } from '../../../services/deliver/note.ts'
import { DELIVERED_JOB, DELIVERED_TENANT } from '../../support/deliveries.ts'

const parts = {
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

const noted = (answer: Answer, attempt = 1) =>
  noteOf(parts, { ...claim, attempt }, { answer, durationMs: 20, atMs: 1_000 })

describe('what an attempt leaves behind', () => {
  it('tells when the next one is due, which is counted from now', () => {
    const { tenant, job, event, type } = claim
    expect(noted({ kind: 'failed', reason: 'timeout' })).toEqual({
      state: 'waiting',
      pace: 'quick',
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
  ] as const)('names no other attempt after %j, which is final: %s', (answer, outcome, reason) => {
    const note = noted(answer)
    expect(note).toMatchObject({ state: outcome, attempt: { outcome, reason } })
    expect(note.dueAtMs).toBe(undefined)
  })

  it('names none after the last of the schedule', () => {
    const note = noted({ kind: 'answered', status: 301, retryAfterMs: undefined }, 2)
    expect(note).toMatchObject({ state: 'exhausted', attempt: { reason: 'redirect' } })
    expect(note.dueAtMs).toBe(undefined)
  })
})
