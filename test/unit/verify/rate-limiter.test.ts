import { describe, expect, it } from 'vitest'
import { createRateLimiter, type RateLimit } from '../../../services/verify/resilience.ts'

const signal = new AbortController().signal

/** A rate limiter with a clock that only waits advance. */
function limiterOf (limit?: RateLimit) {
  const clock = { ms: 0 }
  const waits: number[] = []
  const limiter = createRateLimiter(limit, {
    now: () => clock.ms,
    sleep: async (ms) => {
      waits.push(ms)
      clock.ms += ms
    },
  })
  return { limiter, clock, waits }
}

describe('the rate limiter of a provider', () => {
  it('admits one burst and then single calls', async () => {
    const { limiter, waits } = limiterOf({ calls: 2, perMs: 1_000 })
    for (let call = 0; call < 4; call++) await limiter.take(signal)
    expect(waits).toEqual([500, 500])
  })

  it('accumulates at most one burst', async () => {
    const { limiter, clock, waits } = limiterOf({ calls: 2, perMs: 1_000 })
    clock.ms = 60_000
    for (let call = 0; call < 3; call++) await limiter.take(signal)
    expect(waits).toEqual([500])
  })

  it('counts calls that do not wait', async () => {
    const { limiter, waits } = limiterOf({ calls: 1, perMs: 100 })
    await limiter.take(signal)
    limiter.charge()
    await limiter.take(signal)
    expect(waits).toEqual([200])
  })

  it('admits all calls without a limit', async () => {
    const { limiter, waits } = limiterOf()
    for (let call = 0; call < 100; call++) await limiter.take(signal)
    expect(waits).toEqual([])
  })

  it('rejects calls during a pause', async () => {
    const { limiter, clock } = limiterOf()
    limiter.pause(1_000)
    clock.ms = 400
    await expect(limiter.take(signal)).rejects.toMatchObject({
      failure: 'rate_limited', retryAfterMs: 600,
    })
    clock.ms = 1_000
    await limiter.take(signal)
  })

  it('limits a pause to 15 minutes', async () => {
    const { limiter, clock } = limiterOf()
    limiter.pause(86_400_000)
    clock.ms = 900_000
    await limiter.take(signal)
  })
})
