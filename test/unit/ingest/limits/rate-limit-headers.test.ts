import { describe, expect, it } from 'vitest'
import { rateLimitHeaders } from '../../../../services/ingest/limits/limiter.ts'
import {
  type Level, retryAfterSeconds,
} from '../../../../services/runtime/platform/limits.ts'

const burst = { capacity: 100, seconds: 1 }
const sustained = { capacity: 1_000, seconds: 60 }
const levels = (inBurst: number, inSustained: number): readonly Level[] => [
  { bucket: burst, tokens: inBurst }, { bucket: sustained, tokens: inSustained },
]

describe('the headers of a limit', () => {
  it.each([
    ['fresh', levels(99, 999), '100', '99', '1'],
    ['fractions', levels(98.999, 998.2), '100', '98', '1'],
    ['the longer limit is nearer', levels(99, 40), '1000', '40', '58'],
    ['both are as near', levels(0.5, 0.25), '100', '0', '1'],
    ['full', levels(100, 1_000), '100', '100', '0'],
    ['the longer limit is out', levels(20, 0.4), '1000', '0', '60'],
  ] as const)('%s', (...[, given, limit, remaining, reset]) => {
    expect(rateLimitHeaders(given)).toEqual({
      'ratelimit-limit': limit,
      'ratelimit-remaining': remaining,
      'ratelimit-reset': reset,
      'ratelimit-policy': '100;w=1, 1000;w=60',
    })
  })

  it('name one policy when there is one limit', () => {
    const bucket = { capacity: 200, seconds: 1 }
    expect(rateLimitHeaders([{ bucket, tokens: 12 }])).toMatchObject({
      'ratelimit-policy': '200;w=1', 'ratelimit-limit': '200', 'ratelimit-remaining': '12',
    })
  })
})

describe('how long to wait', () => {
  it.each([
    [levels(0, 500), 1],
    [levels(50, 0), 1],
    [[{ bucket: { capacity: 2, seconds: 60 }, tokens: 0.5 }], 15],
    [[{ bucket: { capacity: 2, seconds: 60 }, tokens: 0.4 }], 18],
    [levels(50, 500), 1],
  ] as const)('%j', (given, seconds) => {
    expect(retryAfterSeconds(given)).toBe(seconds)
  })
})
