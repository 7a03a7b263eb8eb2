import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import {
  ProviderError, type Provider, type ProviderFailure,
} from '../../../services/verify/provider.ts'
import { withResilience, type ResilienceOptions } from '../../../services/verify/resilience.ts'

/** Time does not pass, so that only the test reaches a limit. */
beforeEach(() => { vi.useFakeTimers({ toFake: ['Date', 'performance'] }) })
afterEach(() => { vi.useRealTimers() })

const limits: ResilienceOptions = {
  timeoutMs: 300_000,
  concurrency: 2,
  retries: 0,
  breaker: { failingShare: 0.5, sampledMs: 30_000, openMs: 60_000 },
  breaks: true,
}
const rows = [{ row: 0, canonical: '+12127365000' }]

/** A provider that is called with the number of the call. */
function providerOf (check: (call: number, signal: AbortSignal) => Promise<void>) {
  let calls = 0
  const provider: Provider = {
    id: 9,
    services: ['whatsapp'],
    check: async (_rows, { signal }) => {
      await check(++calls, signal)
      return []
    },
  }
  return { provider, calls: () => calls }
}

const request = (signal = new AbortController().signal) =>
  ({ service: 'whatsapp', signal } as const)
const failing = (failure: ProviderFailure) => async () => { throw new ProviderError(failure) }
const never = async () => await new Promise<void>(() => {})

describe('the resilience policies of a provider', () => {
  it('end a call after its timeout, even if it ignores its signal', async () => {
    let aborted = false
    const { provider } = providerOf(async (_call, signal) => {
      signal.addEventListener('abort', () => { aborted = true })
      await never()
    })
    const check = withResilience(provider, { ...limits, timeoutMs: 5 })
    await expect(check(rows, request())).rejects.toMatchObject({ failure: 'timeout' })
    expect(aborted).toBe(true)
  })

  it('reject with the reason of the caller\'s signal', async () => {
    const { provider } = providerOf(never)
    const stop = new AbortController()
    const answer = withResilience(provider, limits)(rows, request(stop.signal))
    stop.abort(new Error('stopped'))
    await expect(answer).rejects.toThrow('stopped')
  })

  it('ignore the failures of the sandbox and rejected inputs in the circuit breaker', async () => {
    const scripted = providerOf(failing('auth'))
    const rejecting = providerOf(failing('rejected_input'))
    const checks = [
      withResilience(scripted.provider, { ...limits, breaks: false }),
      withResilience(rejecting.provider, limits),
    ]
    for (let call = 0; call < 60; call++) {
      for (const check of checks) await check(rows, request()).catch(() => {})
    }
    expect([scripted.calls(), rejecting.calls()]).toEqual([60, 60])
  })

  it('end an attempt after its timeout, without a retry', async () => {
    const { provider, calls } = providerOf(never)
    const check = withResilience(provider, { ...limits, attemptTimeoutMs: 5, retries: 2 })
    await expect(check(rows, request())).rejects.toMatchObject({ failure: 'timeout' })
    expect(calls()).toBe(1)
  })

  it('give each attempt its deadline', async () => {
    const left: number[] = []
    const provider: Provider = {
      id: 9,
      services: ['whatsapp'],
      check: async (_rows, { deadlineMs }) => {
        left.push(deadlineMs - Date.now())
        if (left.length < 3) throw new ProviderError('unavailable')
        return []
      },
    }
    const check = withResilience(provider, {
      ...limits, timeoutMs: 60_000, attemptTimeoutMs: 20_000, retries: 2,
    })
    await check(rows, request())
    expect(left).toEqual([20_000, 20_000, 20_000])
  })

  it('limit the rate of calls', async () => {
    const { provider, calls } = providerOf(async () => {})
    const check = withResilience(provider, {
      ...limits, rate: { calls: 2, perMs: 60_000 }, maxWaitMs: 0,
    })
    for (const [ms, count] of [[0, 2], [29_999, 2], [1, 3], [60_000, 5]] as const) {
      vi.advanceTimersByTime(ms)
      for (let call = 0; call < 3; call++) await check(rows, request()).catch(() => {})
      expect(calls()).toBe(count)
    }
  })

  it('delay a call beyond the rate', async () => {
    const { provider, calls } = providerOf(async () => {})
    const check = withResilience(provider, { ...limits, rate: { calls: 1, perMs: 60_000 } })
    await check(rows, request())
    const stop = new AbortController()
    const delayed = check(rows, request(stop.signal))
    await new Promise(setImmediate)
    stop.abort(new Error('stopped'))
    await expect(delayed).rejects.toThrow('stopped')
    expect(calls()).toBe(1)
  })

  it('count retries in the rate of calls', async () => {
    const { provider, calls } = providerOf(async (call) => {
      if (call < 3) throw new ProviderError('unavailable')
    })
    const check = withResilience(provider, {
      ...limits, retries: 2, rate: { calls: 3, perMs: 60_000 }, maxWaitMs: 0,
    })
    await check(rows, request())
    await expect(check(rows, request())).rejects.toMatchObject({ failure: 'rate_limited' })
    expect(calls()).toBe(3)
  })

  it('keep the circuit closed while a vendor asked for a pause', async () => {
    const { provider, calls } = providerOf(async (call) => {
      if (call === 1) throw new ProviderError('rate_limited', 1_000)
    })
    const check = withResilience(provider, limits)
    for (let call = 0; call < 20; call++) {
      await expect(check(rows, request())).rejects.toMatchObject({ failure: 'rate_limited' })
    }
    vi.advanceTimersByTime(1_000)
    await check(rows, request())
    expect(calls()).toBe(2)
  })

  it('pause for 15 minutes at most', async () => {
    const { provider, calls } = providerOf(async (call) => {
      if (call === 1) throw new ProviderError('rate_limited', 86_400_000)
    })
    const check = withResilience(provider, limits)
    for (const ms of [0, 899_000]) {
      vi.advanceTimersByTime(ms)
      await expect(check(rows, request())).rejects.toMatchObject({ failure: 'rate_limited' })
    }
    vi.advanceTimersByTime(1_000)
    await check(rows, request())
    expect(calls()).toBe(2)
  })

  it('limit concurrent calls', async () => {
    let running = 0
    let most = 0
    const { provider } = providerOf(async () => {
      most = Math.max(most, ++running)
      await new Promise(setImmediate)
      running--
    })
    const check = withResilience(provider, limits)
    await Promise.all(Array.from({ length: 7 }, () => check(rows, request())))
    expect(most).toBe(2)
  })

  it('rethrow an error that is no ProviderError', async () => {
    const { provider } = providerOf(async () => { throw new TypeError('defect') })
    await expect(withResilience(provider, limits)(rows, request())).rejects.toThrow('defect')
  })
})
