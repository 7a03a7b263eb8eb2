import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { withPolicies, type PolicyOptions } from '../../../services/verify/policy.ts'
import {
  ProviderError, type Provider, type ProviderFailure,
} from '../../../services/verify/provider.ts'

/** Time stands still, so that no limit is reached but by the test. */
beforeEach(() => { vi.useFakeTimers({ toFake: ['Date', 'performance'] }) })
afterEach(() => { vi.useRealTimers() })

const limits: PolicyOptions = {
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

describe('the policies of a provider', () => {
  it('end a call that lasts too long, even one that ignores its signal', async () => {
    let aborted = false
    const { provider } = providerOf(async (_call, signal) => {
      signal.addEventListener('abort', () => { aborted = true })
      await never()
    })
    const check = withPolicies(provider, { ...limits, timeoutMs: 5 })
    await expect(check(rows, request())).rejects.toMatchObject({ failure: 'timeout' })
    expect(aborted).toBe(true)
  })

  it('throw the reason of the caller\'s own signal', async () => {
    const { provider } = providerOf(never)
    const stop = new AbortController()
    const answer = withPolicies(provider, limits)(rows, request(stop.signal))
    stop.abort(new Error('stopped'))
    await expect(answer).rejects.toThrow('stopped')
  })

  it('try a call again that was not taken, and no other', async () => {
    const healing = providerOf(async (call) => {
      if (call < 3) throw new ProviderError('unavailable')
    })
    expect(await withPolicies(healing.provider, { ...limits, retries: 2 })(rows, request()))
      .toEqual([])
    expect(healing.calls()).toBe(3)
    const limited = providerOf(failing('rate_limited'))
    await expect(withPolicies(limited.provider, { ...limits, retries: 2 })(rows, request()))
      .rejects.toMatchObject({ failure: 'rate_limited' })
    expect(limited.calls()).toBe(1)
  })

  it('spare a provider whose calls keep failing', async () => {
    const { provider, calls } = providerOf(failing('auth'))
    const check = withPolicies(provider, limits)
    const failures = new Set<string>()
    for (let call = 0; call < 60; call++) {
      await check(rows, request()).catch((error: ProviderError) => failures.add(error.failure))
    }
    expect(calls()).toBe(10)
    expect([...failures]).toEqual(['auth', 'unavailable'])
  })

  it('never spare the sandbox, nor hold what the input caused against a provider', async () => {
    const scripted = providerOf(failing('auth'))
    const rejecting = providerOf(failing('rejected_input'))
    const checks = [
      withPolicies(scripted.provider, { ...limits, breaks: false }),
      withPolicies(rejecting.provider, limits),
    ]
    for (let call = 0; call < 60; call++) {
      for (const check of checks) await check(rows, request()).catch(() => {})
    }
    expect([scripted.calls(), rejecting.calls()]).toEqual([60, 60])
  })

  it('end one try that lasts too long, and do not make another of it', async () => {
    const { provider, calls } = providerOf(never)
    const check = withPolicies(provider, { ...limits, attemptTimeoutMs: 5, retries: 2 })
    await expect(check(rows, request())).rejects.toMatchObject({ failure: 'timeout' })
    expect(calls()).toBe(1)
  })

  it('tell each try when it ends, and all of them when the call does', async () => {
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
    const check = withPolicies(provider, {
      ...limits, timeoutMs: 60_000, attemptTimeoutMs: 20_000, retries: 2,
    })
    await check(rows, request())
    expect(left).toEqual([20_000, 20_000, 20_000])
  })

  it('wait for a turn before they ask whether the circuit is open, and hold it against nobody',
    async () => {
      const { provider, calls } = providerOf(async (call) => {
        if (call > 1) throw new Error('asked too soon')
        throw new ProviderError('rate_limited', 60_000)
      })
      const check = withPolicies(provider, limits)
      const failures: unknown[] = []
      for (let call = 0; call < 60; call++) {
        await check(rows, request()).catch((error: ProviderError) => failures.push(error.failure))
      }
      expect(calls()).toBe(1)
      expect(new Set(failures)).toEqual(new Set(['rate_limited']))
    })

  it('start no more calls in a time than they may', async () => {
    vi.useRealTimers()
    const { provider } = providerOf(async () => {})
    const check = withPolicies(provider, { ...limits, rate: { calls: 2, perMs: 100 } })
    const startedMs = performance.now()
    for (let call = 0; call < 4; call++) await check(rows, request())
    expect(performance.now() - startedMs).toBeGreaterThan(90)
  })

  it('let only so many calls run at a time', async () => {
    let running = 0
    let most = 0
    const { provider } = providerOf(async () => {
      most = Math.max(most, ++running)
      await new Promise(setImmediate)
      running--
    })
    const check = withPolicies(provider, limits)
    await Promise.all(Array.from({ length: 7 }, () => check(rows, request())))
    expect(most).toBe(2)
  })

  it('pass a failure on that is none of a provider', async () => {
    const { provider } = providerOf(async () => { throw new TypeError('defect') })
    await expect(withPolicies(provider, limits)(rows, request())).rejects.toThrow('defect')
  })
})
