import { describe, expect, it } from 'vitest'
import { isTooSlow } from '../../../services/platform/minimum-throughput.ts'

const pace = { graceMs: 5_000, bytesPerSecond: 16_384, wholeWithinMs: 60_000 }
const MEGABYTE = 1_024 * 1_024

describe('a body that needs room', () => {
  it.each([
    ['nothing within the grace', 0, 5_000, 100_000, false],
    ['nothing after the grace', 0, 5_001, 100_000, true],
    ['exactly as fast as asked', 16_384, 6_000, 100_000, false],
    ['a byte less', 16_383, 6_000, 100_000, true],
    ['that fast for longer', 16_384 * 20, 25_000, MEGABYTE / 2, false],
    ['fast at first and then no more', 70_000, 10_000, 100_000, true],
    ['slow at first and then fast', 900_000, 10_000, MEGABYTE, false],
    ['a large one, at the pace of small ones', 16_384, 6_000, 6 * MEGABYTE, true],
    ['a large one, fast enough to be whole', 6 * MEGABYTE / 60, 6_000, 6 * MEGABYTE, false],
    ['the largest, over 5 Mbit/s', 625_000 * 30, 30_000, 34 * MEGABYTE, false],
    ['chunks, as fast as asked', 16_384, 6_000, undefined, false],
    ['chunks, a byte less', 16_383, 6_000, undefined, true],
  ])('%s', (...[, bytes, elapsedMs, statedBytes, expected]) => {
    expect(isTooSlow({ bytes, elapsedMs, statedBytes }, pace)).toBe(expected)
  })
})
