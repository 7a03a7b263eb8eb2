import { describe, expect, it } from 'vitest'
import { isTooSlow } from '../../../../services/runtime/platform/http-server.ts'

const minimum = { graceMs: 5_000, bytesPerSecond: 16_384, completeWithinMs: 60_000 }
const MEGABYTE = 1_024 * 1_024

describe('the minimum throughput of a body', () => {
  it.each([
    ['no byte within the grace period', 0, 5_000, 100_000, false],
    ['no byte after the grace period', 0, 5_001, 100_000, true],
    ['exactly the minimum', 16_384, 6_000, 100_000, false],
    ['a byte less than the minimum', 16_383, 6_000, 100_000, true],
    ['the minimum for 20 s', 16_384 * 20, 25_000, MEGABYTE / 2, false],
    ['a body that stalls', 70_000, 10_000, 100_000, true],
    ['a body that is slow at first', 900_000, 10_000, MEGABYTE, false],
    ['a large body at the minimum of a small one', 16_384, 6_000, 6 * MEGABYTE, true],
    ['a large body that ends in time', 6 * MEGABYTE / 60, 6_000, 6 * MEGABYTE, false],
    ['the largest body over 5 Mbit/s', 625_000 * 30, 30_000, 34 * MEGABYTE, false],
    ['a chunked body at the minimum', 16_384, 6_000, undefined, false],
    ['a chunked body a byte below', 16_383, 6_000, undefined, true],
  ])('decides for %s', (...[, bytes, elapsedMs, contentLength, expected]) => {
    expect(isTooSlow({ bytes, elapsedMs, contentLength }, minimum)).toBe(expected)
  })
})
