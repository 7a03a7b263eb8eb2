import { describe, expect, it } from 'vitest'
import { untilRoom, type ShortageParts } from '../../../services/feed/shortage.ts'

const signal = new AbortController().signal
const short = { code: 'insufficient_balance', requiredMicros: 500, availableMicros: 0 } as const

function parts (balances: readonly number[], actives: readonly number[], longestMs = 60_000) {
  const asked = { balances: 0, actives: 0 }
  const given: ShortageParts = {
    wallet: {
      balance: async () => ({
        availableMicros: balances[Math.min(asked.balances++, balances.length - 1)] ?? 0,
        reservedMicros: 0,
        chargedMicros: 0,
        fundedMicros: 0,
        seq: 0,
      }),
    },
    redis: {
      scard: async () => actives[Math.min(asked.actives++, actives.length - 1)] ?? 0,
    },
    longestMs,
    pollMs: 1,
  }
  return { given, asked }
}

describe('a shortage', () => {
  it('of balance is over once there is as much as was lacking', async () => {
    const { given, asked } = parts([0, 499, 500], [])
    await untilRoom('org_1.live', short, { parts: given, signal })
    expect(asked).toEqual({ balances: 3, actives: 0 })
  })

  it('of slots is over once fewer are taken than at the refusal', async () => {
    const { given, asked } = parts([], [10, 10, 11, 9])
    await untilRoom('org_1.live', { code: 'concurrent_jobs_limit' }, { parts: given, signal })
    expect(asked).toEqual({ balances: 0, actives: 4 })
  })

  it('is worth another try after the longest pause', async () => {
    const { given } = parts([0], [], 20)
    const startedAt = performance.now()
    await untilRoom('org_1.live', short, { parts: given, signal })
    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(19)
  })

  it('ends with the feed', async () => {
    const stopping = new AbortController()
    const { given } = parts([0], [])
    const waiting = untilRoom('org_1.live', short, { parts: given, signal: stopping.signal })
    stopping.abort(new Error('stops'))
    await expect(waiting).rejects.toThrow('stops')
  })
})
