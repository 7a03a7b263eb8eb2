import {
  BrokenCircuitError, bulkhead, circuitBreaker, CircuitState, ExponentialBackoff,
  fullJitterGenerator, handleWhen, noop, retry, SamplingBreaker, TaskCancelledError, timeout,
  TimeoutStrategy, wrap,
} from 'cockatiel'
import { sleep } from '../lib/retry.ts'
import { ProviderError, type CheckOptions, type Provider } from './provider.ts'
import { createRate, type Rate, type RateLimit } from './rate.ts'

export type PolicyLimits = {
  /** A call with all its tries lasts at most so long. */
  readonly timeoutMs: number
  /** One try lasts at most so long; as long as the call when left out. */
  readonly attemptTimeoutMs?: number
  /** Calls of one provider under way at the same time; further ones wait. */
  readonly concurrency: number
  /** Tries after the first, only of calls the provider could not take at all. */
  readonly retries: number
  readonly breaker: BreakerLimits
  /** Calls this process may start; none waits for its turn when there is no limit. */
  readonly rate?: RateLimit | undefined
}

export type BreakerLimits = {
  /** The circuit opens when this share of the calls within `sampledMs` failed, 0 to 1. */
  readonly failingShare: number
  readonly sampledMs: number
  /** An open circuit lets one call through after so long. */
  readonly openMs: number
}

export type PolicyOptions = PolicyLimits & {
  /** False for a provider whose failures are scripted: one tenant's must not stop another's. */
  readonly breaks: boolean
  /** Told when the circuit opens, and when it is closed or tried again. */
  readonly onCircuit?: (isOpen: boolean) => void
}

export type Check = (
  rows: Parameters<Provider['check']>[0], options: Pick<CheckOptions, 'service' | 'signal'>,
) => ReturnType<Provider['check']>

/** Fewer calls than this within the sampled time prove nothing. */
const SAMPLED_CALLS = 10
const FIRST_PAUSE_MS = 50

/**
 * A provider behind its policies, from the outside in: bulkhead, rate, circuit breaker, retry
 * within the time of the whole call, timeout of each try. A provider that says when to come back
 * is left alone until then. Every way it can fail is a `ProviderError` then; when the caller's own
 * signal ended the call, that signal's reason is thrown instead, and nothing is held against the
 * provider.
 */
export function withPolicies (provider: Provider, options: PolicyOptions): Check {
  const rate = createRate(options.rate, { now: () => performance.now(), sleep })
  const slots = bulkhead(options.concurrency, Number.MAX_SAFE_INTEGER)
  const breaker = options.breaks ? breakerOf(options.breaker, options.onCircuit) : noop
  const tries = triesOf(provider, { ...options, rate })
  return async (rows, { service, signal }) => {
    const once = async () => {
      try {
        return await tries(rows, { service, signal })
      } catch (error) {
        signal.throwIfAborted()
        if (error instanceof ProviderError && error.retryAfterMs) rate.pause(error.retryAfterMs)
        throw error
      }
    }
    try {
      return await slots.execute(async () => {
        await rate.take(signal)
        return await breaker.execute(once, signal)
      }, signal)
    } catch (error) {
      signal.throwIfAborted()
      throw error instanceof BrokenCircuitError ? new ProviderError('unavailable') : error
    }
  }
}

type TryOptions = Pick<PolicyOptions, 'timeoutMs' | 'attemptTimeoutMs' | 'retries'> & {
  readonly rate: Rate
}

/** All tries of a call within its time; those after the first are charged, but do not wait. */
function triesOf (provider: Provider, options: TryOptions): Check {
  const { timeoutMs, retries, rate } = options
  const attemptMs = Math.min(timeoutMs, options.attemptTimeoutMs ?? timeoutMs)
  const whole = wrap(
    limitOf(timeoutMs),
    retry(handleWhen(isWorthRetrying), {
      maxAttempts: retries,
      backoff: new ExponentialBackoff({
        initialDelay: FIRST_PAUSE_MS, generator: fullJitterGenerator,
      }),
    }))
  const single = limitOf(attemptMs)
  return (rows, { service, signal }) => {
    const endsAtMs = Date.now() + timeoutMs
    return asTimeout(whole.execute(({ signal: within, attempt }) => {
      if (attempt > 0) rate.charge()
      const deadlineMs = Math.min(endsAtMs, Date.now() + attemptMs)
      return asTimeout(single.execute(({ signal: inner }) =>
        provider.check(rows, { service, signal: inner, deadlineMs }), within ?? signal))
    }, signal))
  }
}

function limitOf (ms: number) {
  return timeout(ms, { strategy: TimeoutStrategy.Aggressive, abortOnReturn: true })
}

/** A try that lasted too long failed like any other, so that the policies around it can judge. */
async function asTimeout<T> (work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    throw error instanceof TaskCancelledError ? new ProviderError('timeout') : error
  }
}

function breakerOf (
  { failingShare, sampledMs, openMs }: BreakerLimits, onCircuit?: (isOpen: boolean) => void
) {
  const breaker = circuitBreaker(handleWhen(isHeldAgainst), {
    halfOpenAfter: openMs,
    breaker: new SamplingBreaker({
      threshold: failingShare,
      duration: sampledMs,
      minimumRps: SAMPLED_CALLS / (sampledMs / 1_000),
    }),
  })
  breaker.onStateChange(state => onCircuit?.(state === CircuitState.Open))
  return breaker
}

/** What the input caused says nothing about the provider. */
function isHeldAgainst (error: unknown): boolean {
  return error instanceof ProviderError && error.failure !== 'rejected_input'
}

/** Only a call that was not taken costs nothing a second time, and not before it is welcome. */
function isWorthRetrying (error: unknown): boolean {
  return error instanceof ProviderError && error.failure === 'unavailable' && !error.retryAfterMs
}
