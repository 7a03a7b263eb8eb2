import { describe, expect, it } from 'vitest'
import { type BackpressureDeps, untilAcceptable } from '../../../services/feed/partner-feed.ts'

const signal = new AbortController().signal
const refusal = { code: 'insufficient_balance', requiredMicros: 500, availableMicros: 0 } as const

function depsWith (balances: readonly number[], actives: readonly number[], maxPauseMs = 60_000) {
  const reads = { balances: 0, actives: 0 }
  const deps: BackpressureDeps = {
    wallet: {
      balance: async () => ({
        availableMicros: balances[Math.min(reads.balances++, balances.length - 1)] ?? 0,
        reservedMicros: 0,
        chargedMicros: 0,
        fundedMicros: 0,
        seq: 0,
      }),
    },
    redis: {
      hget: async () => String(actives[Math.min(reads.actives++, actives.length - 1)] ?? 0),
    },
    maxPauseMs,
    pollMs: 1,
  }
  return { deps, reads }
}

describe('the wait for an acceptable feed job', () => {
  it('ends once the balance covers the job', async () => {
    const { deps, reads } = depsWith([0, 499, 500], [])
    await untilAcceptable('org_1.live', refusal, { deps, signal })
    expect(reads).toEqual({ balances: 3, actives: 0 })
  })

  it('ends once the tenant has fewer active jobs than at the refusal', async () => {
    const { deps, reads } = depsWith([], [10, 10, 11, 9])
    await untilAcceptable('org_1.live', { code: 'concurrent_jobs_limit' }, { deps, signal })
    expect(reads).toEqual({ balances: 0, actives: 4 })
  })

  it('ends after the maximum pause', async () => {
    const { deps } = depsWith([0], [], 20)
    const startedAt = performance.now()
    await untilAcceptable('org_1.live', refusal, { deps, signal })
    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(19)
  })

  it('rejects when the feed stops', async () => {
    const stopping = new AbortController()
    const { deps } = depsWith([0], [])
    const waiting = untilAcceptable('org_1.live', refusal, { deps, signal: stopping.signal })
    stopping.abort(new Error('stops'))
    await expect(waiting).rejects.toThrow('stops')
  })
})
