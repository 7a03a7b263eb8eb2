import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import {
  ProviderError, type Provider, type ProviderFailure,
} from '../../../services/verify/provider.ts'
import { type ResilienceOptions, withResilience } from '../../../services/verify/checker.ts'
import { PROVIDER_LIMITS } from '../../support/stage-messages.ts'

/** Time does not pass, so that only the test reaches a limit. */
beforeEach(() => { vi.useFakeTimers({ toFake: ['Date', 'performance'] }) })
afterEach(() => { vi.useRealTimers() })

const limits: ResilienceOptions = { ...PROVIDER_LIMITS, concurrency: 2, breaks: true }

type Options = Parameters<Provider['check']>[1]

/** Checks by a provider under these policies, which is called with the number of the call. */
function setUp (
  answer: (call: number, options: Options) => Promise<void>,
  more: Partial<ResilienceOptions> = {}
) {
  let calls = 0
  const check: Provider['check'] = async (_rows, options) => {
    await answer(++calls, options)
    return []
  }
  const resilient = withResilience({ id: 9, services: ['whatsapp'], check }, { ...limits, ...more })
  return {
    check: (signal = new AbortController().signal) =>
      resilient([{ row: 0, canonical: '+12127365000' }], { service: 'whatsapp', signal }),
    calls: () => calls,
  }
}

const failing = (failure: ProviderFailure) => async () => { throw new ProviderError(failure) }
const never = async () => await new Promise<void>(() => {})

describe('the resilience policies of a provider', () => {
  it.each([
    ['a call', { timeoutMs: 5 }],
    ['an attempt, without a retry', { attemptTimeoutMs: 5, retries: 2 }],
  ])('end %s after its timeout, even if it ignores its signal', async (_, more) => {
    let aborted = 0
    const { check, calls } = setUp(async (_call, { signal }) => {
      signal.addEventListener('abort', () => { aborted += 1 })
      await never()
    }, more)
    await expect(check()).rejects.toMatchObject({ failure: 'timeout' })
    expect([aborted, calls()]).toEqual([1, 1])
  })

  it('reject with the reason of the caller\'s signal', async () => {
    const stop = new AbortController()
    const answer = setUp(never).check(stop.signal)
    stop.abort(new Error('stopped'))
    await expect(answer).rejects.toThrow('stopped')
  })

  it('ignore the failures of the sandbox and rejected inputs in the circuit breaker', async () => {
    const all = [setUp(failing('auth'), { breaks: false }), setUp(failing('rejected_input'))]
    for (let call = 0; call < 60; call++) {
      for (const { check } of all) await check().catch(() => {})
    }
    expect(all.map(({ calls }) => calls())).toEqual([60, 60])
  })

  it('give each attempt its deadline', async () => {
    const left: number[] = []
    const { check } = setUp(async (call, { deadlineMs }) => {
      left.push(deadlineMs - Date.now())
      if (call < 3) throw new ProviderError('unavailable')
    }, { timeoutMs: 60_000, attemptTimeoutMs: 20_000, retries: 2 })
    await check()
    expect(left).toEqual([20_000, 20_000, 20_000])
  })

  it('limit the rate of calls', async () => {
    const { check, calls } =
      setUp(async () => {}, { rate: { calls: 2, perMs: 60_000 }, maxWaitMs: 0 })
    for (const [ms, count] of [[0, 2], [29_999, 2], [1, 3], [60_000, 5]] as const) {
      vi.advanceTimersByTime(ms)
      for (let call = 0; call < 3; call++) await check().catch(() => {})
      expect(calls()).toBe(count)
    }
  })

  it('count retries in the rate of calls', async () => {
    const { check, calls } = setUp(async call => {
      if (call < 3) throw new ProviderError('unavailable')
    }, { retries: 2, rate: { calls: 3, perMs: 60_000 }, maxWaitMs: 0 })
    await check()
    await expect(check()).rejects.toMatchObject({ failure: 'rate_limited' })
    expect(calls()).toBe(3)
  })

  it.each([
    ['pause as long as a vendor asked for', 1_000, [0, 999], 1],
    ['pause for 15 minutes at most', 86_400_000, [0, 899_000], 1_000],
  ])('%s, which keeps the circuit closed', async (_, askedMs, passed, leftMs) => {
    const { check, calls } = setUp(async call => {
      if (call === 1) throw new ProviderError('rate_limited', askedMs)
    })
    for (const ms of passed) {
      vi.advanceTimersByTime(ms)
      for (let call = 0; call < 20; call++) {
        await expect(check()).rejects.toMatchObject({ failure: 'rate_limited' })
      }
    }
    vi.advanceTimersByTime(leftMs)
    await check()
    expect(calls()).toBe(2)
  })

  it('limit concurrent calls', async () => {
    let [running, most] = [0, 0]
    const { check } = setUp(async () => {
      most = Math.max(most, ++running)
      await new Promise(setImmediate)
      running--
    })
    await Promise.all(Array.from({ length: 7 }, () => check()))
    expect(most).toBe(2)
  })
})
