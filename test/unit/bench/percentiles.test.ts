import { expect, it } from 'vitest'
import { median, percentilesOf, quantile } from '../../bench/jobs.ts'

const upTo = (last: number) => Array.from({ length: last }, (_, index) => index + 1)

it.each([
  [[30, 10, 50, 20, 40], 30, 50], [upTo(40), 21, 39], [[7], 7, 7], [[], NaN, NaN],
])('percentiles are measured values, whatever their order: %j', (times, p50Ms, p95Ms) => {
  expect(percentilesOf(times)).toEqual({ p50Ms, p95Ms })
})

it('the median is the upper one of two middle values', () => {
  expect([median([5, 1, 3]), median([4, 1, 3, 2])]).toEqual([3, 3])
})

it('a quantile is the smallest value for 0 and the largest for 1, and sorts a copy', () => {
  const times = [3, 1, 2]
  expect([quantile(upTo(10), 1), quantile(upTo(10), 0), quantile(upTo(200), 0.99)])
    .toEqual([10, 1, 199])
  quantile(times, 0.5)
  expect(times).toEqual([3, 1, 2])
})
