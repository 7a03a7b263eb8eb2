import { describe, expect, it } from 'vitest'
import { median, percentilesOf, quantile } from '../../bench/jobs.ts'

const upTo = (last: number) => Array.from({ length: last }, (_, index) => index + 1)

describe('percentilesOf', () => {
  it('returns measured values, whatever their order', () => {
    expect(percentilesOf([30, 10, 50, 20, 40])).toEqual({ p50Ms: 30, p95Ms: 50 })
    expect(percentilesOf(upTo(40))).toEqual({ p50Ms: 21, p95Ms: 39 })
  })

  it('returns a single value as both percentiles', () => {
    expect(percentilesOf([7])).toEqual({ p50Ms: 7, p95Ms: 7 })
  })

  it('returns NaN without values', () => {
    expect(percentilesOf([])).toEqual({ p50Ms: NaN, p95Ms: NaN })
  })
})

describe('median', () => {
  it('returns the upper one of two middle values', () => {
    expect(median([5, 1, 3])).toBe(3)
    expect(median([4, 1, 3, 2])).toBe(3)
  })
})

describe('quantile', () => {
  it('returns the smallest value for 0 and the largest for 1', () => {
    expect(quantile(upTo(10), 1)).toBe(10)
    expect(quantile(upTo(10), 0)).toBe(1)
    expect(quantile(upTo(200), 0.99)).toBe(199)
  })

  it('does not sort its argument in place', () => {
    const times = [3, 1, 2]
    quantile(times, 0.5)
    expect(times).toEqual([3, 1, 2])
  })
})
