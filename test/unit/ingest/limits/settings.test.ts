import { describe, expect, it } from 'vitest'
import { limitFields, limitsOf } from '../../../../services/ingest/limits/limiter.ts'
import { defineConfig, loadConfig } from '../../../../services/runtime/platform/config.ts'

const schema = defineConfig(limitFields)

describe('the limits', () => {
  it('are those of the public interface unless others are set', () => {
    expect(limitsOf(loadConfig(schema, {}))).toEqual({
      post: [{ capacity: 100, seconds: 1 }, { capacity: 1_000, seconds: 60 }],
      get: [{ capacity: 200, seconds: 1 }],
    })
  })

  it('can all be set', () => {
    expect(limitsOf(loadConfig(schema, {
      LIMIT_POST_BURST: '1',
      LIMIT_POST_BURST_SECONDS: '2',
      LIMIT_POST_SUSTAINED: '3',
      LIMIT_POST_SUSTAINED_SECONDS: '4',
      LIMIT_GET: '5',
      LIMIT_GET_SECONDS: '6',
    }))).toEqual({
      post: [{ capacity: 1, seconds: 2 }, { capacity: 3, seconds: 4 }],
      get: [{ capacity: 5, seconds: 6 }],
    })
    expect(() => loadConfig(schema, { LIMIT_GET: '0' })).toThrow(/LIMIT_GET must be >= 1/)
  })
})
