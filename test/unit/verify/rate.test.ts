import { describe, expect, it } from 'vitest'
import { createRate, type RateLimit } from '../../../services/verify/rate.ts'

const signal = new AbortController().signal

/** A rate on a clock that only waiting moves. */
function rateOf (limit?: RateLimit) {
  const clock = { ms: 0 }
  const waits: number[] = []
  const rate = createRate(limit, {
    now: () => clock.ms,
    sleep: async (ms) => {
      waits.push(ms)
      clock.ms += ms
    },
  })
  return { rate, clock, waits }
}

describe('the rate of a provider', () => {
  it('lets a burst go and then one call at a time', async () => {
    const { rate, waits } = rateOf({ calls: 2, perMs: 1_000 })
    for (let call = 0; call < 4; call++) await rate.take(signal)
    expect(waits).toEqual([500, 500])
  })

  it('saves up no more than one burst', async () => {
    const { rate, clock, waits } = rateOf({ calls: 2, perMs: 1_000 })
    clock.ms = 60_000
    for (let call = 0; call < 3; call++) await rate.take(signal)
    expect(waits).toEqual([500])
  })

  it('counts calls that did not wait', async () => {
    const { rate, waits } = rateOf({ calls: 1, perMs: 100 })
    await rate.take(signal)
    rate.charge()
    await rate.take(signal)
    expect(waits).toEqual([200])
  })

  it('is none without a limit', async () => {
    const { rate, waits } = rateOf()
    for (let call = 0; call < 100; call++) await rate.take(signal)
    expect(waits).toEqual([])
  })

  it('stops calls at once while the provider is to be left alone', async () => {
    const { rate, clock } = rateOf()
    rate.pause(1_000)
    clock.ms = 400
    await expect(rate.take(signal)).rejects.toMatchObject({
      failure: 'rate_limited', retryAfterMs: 600,
    })
    clock.ms = 1_000
    await rate.take(signal)
  })

  it('is never stopped for longer than a quarter of an hour', async () => {
    const { rate, clock } = rateOf()
    rate.pause(86_400_000)
    clock.ms = 900_000
    await rate.take(signal)
  })
})
