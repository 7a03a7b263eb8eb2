import { describe, expect, it } from 'vitest'
import {
  limitFields, toRateLimits, rateLimitHeaders,
} from '../../../../services/ingest/limits/limiter.ts'
import { defineConfig, loadConfig } from '../../../../services/runtime/platform/config.ts'
import { type Level, retryAfterSeconds } from '../../../../services/runtime/platform/limits.ts'

describe('the limits of an organization', () => {
  const schema = defineConfig(limitFields)

  it('are those of the public interface unless others are set', () => {
    expect(toRateLimits(loadConfig(schema, {}), {})).toEqual({
      post: [{ capacity: 100, seconds: 1 }, { capacity: 1_000, seconds: 60 }],
      get: [{ capacity: 200, seconds: 1 }],
    })
    const settings = loadConfig(schema, {
      LIMIT_POST_BURST: '1',
      LIMIT_POST_BURST_SECONDS: '2',
      LIMIT_POST_SUSTAINED: '3',
      LIMIT_POST_SUSTAINED_SECONDS: '4',
      LIMIT_GET: '5',
      LIMIT_GET_SECONDS: '6',
    })
    expect(toRateLimits(settings, { postBurst: 7, postSustained: 8, gets: 9 })).toEqual({
      post: [{ capacity: 7, seconds: 2 }, { capacity: 8, seconds: 4 }],
      get: [{ capacity: 9, seconds: 6 }],
    })
    expect(() => loadConfig(schema, { LIMIT_GET: '0' })).toThrow(/LIMIT_GET must be >= 1/)
  })
})

const levels = (inBurst: number, inSustained: number): readonly Level[] => [
  { bucket: { capacity: 100, seconds: 1 }, tokens: inBurst },
  { bucket: { capacity: 1_000, seconds: 60 }, tokens: inSustained },
]
const only = (tokens: number): readonly Level[] =>
  [{ bucket: { capacity: 2, seconds: 60 }, tokens }]

describe('the headers of a limit', () => {
  it.each([
    ['fractions', levels(98.999, 998.2), '100', '98', '1'],
    ['the longer limit is nearer', levels(99, 40), '1000', '40', '58'],
    ['both are as near', levels(0.5, 0.25), '100', '0', '1'],
    ['full', levels(100, 1_000), '100', '100', '0'],
    ['the longer limit is out', levels(20, 0.4), '1000', '0', '60'],
    ['one limit', only(1.5), '2', '1', '15'],
  ] as const)('name the bucket with the fewest tokens: %s', (_, given, limit, remaining, reset) => {
    expect(rateLimitHeaders(given)).toEqual({
      'ratelimit-limit': limit,
      'ratelimit-remaining': remaining,
      'ratelimit-reset': reset,
      'ratelimit-policy': given.length === 1 ? '2;w=60' : '100;w=1, 1000;w=60',
    })
  })

  it.each([
    [levels(0, 500), 1], [levels(50, 0), 1], [only(0.5), 15], [only(0.4), 18], [levels(50, 500), 1],
  ] as const)('tell how long to wait with %j: %i s', (given, seconds) => {
    expect(retryAfterSeconds(given)).toBe(seconds)
  })
})
