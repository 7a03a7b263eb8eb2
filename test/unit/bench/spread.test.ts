import { describe, expect, it } from 'vitest'
import { median, quantile, spreadOf } from '../../bench/spread.ts'

const upTo = (last: number) => Array.from({ length: last }, (_, index) => index + 1)

describe('the spread of times', () => {
  it('takes values that were measured, whatever their order', () => {
    expect(spreadOf([30, 10, 50, 20, 40])).toEqual({ p50Ms: 30, p95Ms: 50 })
    expect(spreadOf(upTo(40))).toEqual({ p50Ms: 21, p95Ms: 39 })
  })

  it('of one value is that value', () => {
    expect(spreadOf([7])).toEqual({ p50Ms: 7, p95Ms: 7 })
  })

  it('has no value without times', () => {
    expect(spreadOf([])).toEqual({ p50Ms: NaN, p95Ms: NaN })
  })

  it('leaves the times as they are', () => {
    const times = [3, 1, 2]
    quantile(times, 0.5)
    expect(times).toEqual([3, 1, 2])
  })
})

describe('the median', () => {
  it('is the value in the middle, the upper one of two', () => {
    expect(median([5, 1, 3])).toBe(3)
    expect(median([4, 1, 3, 2])).toBe(3)
  })
})

describe('a quantile', () => {
  it('of everything is the largest value', () => {
    expect(quantile(upTo(10), 1)).toBe(10)
    expect(quantile(upTo(10), 0)).toBe(1)
    expect(quantile(upTo(200), 0.99)).toBe(199)
  })
})
