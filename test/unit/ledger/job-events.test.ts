import { describe, expect, it } from 'vitest'
import type { Journal } from '../../../schemas/types.ts'
import { eventsOfEntry } from '../../../services/ledger/job-events.ts'

const NOW_MS = Date.parse('2026-08-11T10:00:00.000Z')
const DAY_MS = 86_400_000
const both = { lane: 'small', events: 'job.accepted job.progress', lowBalanceMicros: '5000' }

function entryOf (terms: object, more: Partial<Journal> = {}): Journal {
  return {
    tenant: 'org_1.live',
    seq: 3,
    entryId: 'job_1:reserve',
    type: 'reserve',
    job: 'job_1',
    amountMicros: 2_000,
    chargeMicros: 0,
    availableMicros: 4_000,
    reservedMicros: 2_000,
    chargedMicros: 0,
    fundedMicros: 6_000,
    at: NOW_MS,
    reason: JSON.stringify({ lane: 'small', ...terms }),
    header: null,
    ...more,
  }
}

const typesOf = (entry: Journal, nowMs = NOW_MS) =>
  eventsOfEntry(entry, nowMs).map(({ value }) => value.type)

describe('a reserve entry', () => {
  it('of a job without subscribers and without a threshold causes no message', () => {
    expect(typesOf(entryOf({}))).toEqual([])
    expect(typesOf(entryOf({ events: 'job.progress' }))).toEqual([])
  })

  it('announces the job to subscribers, and the fall below the threshold', () => {
    expect(eventsOfEntry(entryOf(both), NOW_MS)).toEqual(['job.accepted', 'balance.low']
      .map(type => ({
        topic: 'jobs.events',
        lane: 'small',
        value: { tenant: 'org_1.live', job: 'job_1', type, tenth: 0, at: NOW_MS },
        rows: undefined,
      })))
  })

  it.each([
    ['was above and still is', 5_000, false],
    ['was above and is below', 4_999, true],
    ['was exactly there and is below', 3_000, true],
    ['was below before', 2_999, false],
  ])('reports a balance that %s: %s micros, %s', (_what, availableMicros, isReported) => {
    expect(typesOf(entryOf({ lowBalanceMicros: '5000' }, { availableMicros })))
      .toEqual(isReported ? ['balance.low'] : [])
  })

  it('that is read again after a week causes nothing', () => {
    expect(typesOf(entryOf(both), NOW_MS + 6 * DAY_MS)).toHaveLength(2)
    expect(typesOf(entryOf(both), NOW_MS + 8 * DAY_MS)).toEqual([])
  })
})

describe('another entry', () => {
  it.each(['settle', 'void', 'topup', 'adjust'])('of type %s causes no event', type => {
    expect(typesOf(entryOf(both, { type }))).toEqual([])
  })
})
