import { describe, expect, it } from 'vitest'
import { retryAfterMsOf, WAITS_MS, waitMs } from '../../../services/deliver/schedule.ts'

const exact = { random: () => 0.5 }

describe('the schedule', () => {
  it('has ten tries in 75 h 35 min', () => {
    expect(WAITS_MS.map(ms => ms / 1_000))
      .toEqual([5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400])
    const total = WAITS_MS.reduce((sum, ms) => sum + ms, 0)
    expect(total).toBe((75 * 60 + 35) * 60_000 + 5_000)
    expect(WAITS_MS.map((_, index) => waitMs(index + 1, exact))).toEqual(WAITS_MS)
    expect(waitMs(10)).toBeUndefined()
  })

  it('varies each wait by a fifth at most', () => {
    expect([0, 0.25, 1].map(random => waitMs(1, { random: () => random })))
      .toEqual([4_000, 4_500, 6_000])
  })

  it('grants what a receiver asks for, between its own wait and twice the step', () => {
    const asked = [0, 7_000, 60_000, undefined].map(retryAfterMs =>
      waitMs(1, { ...exact, retryAfterMs }))
    expect(asked).toEqual([5_000, 7_000, 10_000, 5_000])
  })

  it('is what is configured', () => {
    expect([1, 2].map(attempt => waitMs(attempt, { ...exact, waitsMs: [10] })))
      .toEqual([10, undefined])
  })
})

describe('Retry-After', () => {
  const nowMs = Date.parse('2026-08-11T10:00:00.000Z')
  it.each([
    ['120', 120_000], [' 0 ', 0], ['Tue, 11 Aug 2026 10:00:30 GMT', 30_000],
    ['Tue, 11 Aug 2026 09:00:00 GMT', 0],
    ['soon', undefined], ['-1', undefined], ['1.5', undefined], ['9999999999', undefined],
    ['Tue, nonsense', undefined], [undefined, undefined],
  ])('of %s is %s ms', (header, expected) => {
    expect(retryAfterMsOf(header, nowMs)).toBe(expected)
  })
})
