import {
  BrokenCircuitError, bulkhead, circuitBreaker, ExponentialBackoff, handleWhen, noop, retry,
  SamplingBreaker, TaskCancelledError, timeout, TimeoutStrategy, wrap,
} from 'cockatiel'
import { sleep } from '../lib/retry.ts'
import { ProviderError, type CheckOptions, type Provider } from './provider.ts'
import { createRate, type Rate, type RateLimit } from './rate.ts'

export type PolicyLimits = {
  /** A call with all its tries lasts at most so long. */
  readonly timeoutMs: number
  /** Calls of one provider under way at the same time; further ones wait. */
  readonly concurrency: number
  /** Tries after the first, only of calls the provider could not take at all. */
  readonly retries: number
  /** An open circuit lets one call through after so long. */
  readonly openMs: number
  /** Calls this process may start; none waits for its turn when there is no limit. */
  readonly rate?: RateLimit | undefined
}

export type PolicyOptions = PolicyLimits & {
  /** False for a provider whose failures are scripted: one tenant's must not stop another's. */
  readonly breaks: boolean
}

export type Check = (
  rows: Parameters<Provider['check']>[0], options: Pick<CheckOptions, 'service' | 'signal'>,
) => ReturnType<Provider['check']>

const SAMPLED_MS = 30_000
const FAILING_SHARE = 0.5
/** Fewer calls than this within the sampled time prove nothing. */
const SAMPLED_CALLS = 10
const FIRST_PAUSE_MS = 50

/**
 * A provider behind its policies, from the outside in: bulkhead, circuit breaker (half of the calls
 * of 30 s failed), rate, timeout over all tries, retry. A provider that says when to come back is
 * left alone until then. Every way it can fail is a `ProviderError` then; when the caller's own
 * signal ended the call, that signal's reason is thrown instead, and nothing is held against the
 * provider.
 */
export function withPolicies (provider: Provider, options: PolicyOptions): Check {
  const rate = createRate(options.rate, { now: () => performance.now(), sleep })
  const outer = wrap(
    bulkhead(options.concurrency, Number.MAX_SAFE_INTEGER),
    options.breaks ? breakerOf(options) : noop)
  const tries = triesOf(provider, { ...options, rate })
  return async (rows, { service, signal }) => {
    const once = async () => {
      try {
        await rate.take(signal)
        return await tries(rows, { service, signal })
      } catch (error) {
        signal.throwIfAborted()
        if (error instanceof ProviderError && error.retryAfterMs) rate.pause(error.retryAfterMs)
        throw error instanceof TaskCancelledError ? new ProviderError('timeout') : error
      }
    }
    try {
      return await outer.execute(once, signal)
    } catch (error) {
      signal.throwIfAborted()
      throw error instanceof BrokenCircuitError ? new ProviderError('unavailable') : error
    }
  }
}

type TryOptions = Pick<PolicyOptions, 'timeoutMs' | 'retries'> & { readonly rate: Rate }

/** All tries of a call within its time; those after the first are charged, but do not wait. */
function triesOf (provider: Provider, options: TryOptions): Check {
  const policy = wrap(
    timeout(options.timeoutMs, { strategy: TimeoutStrategy.Aggressive, abortOnReturn: true }),
    retry(handleWhen(isWorthRetrying), {
      maxAttempts: options.retries,
      backoff: new ExponentialBackoff({ initialDelay: FIRST_PAUSE_MS }),
    }))
  return (rows, { service, signal }) => {
    const deadlineMs = Date.now() + options.timeoutMs
    return policy.execute(({ signal: within, attempt }) => {
      if (attempt > 0) options.rate.charge()
      return provider.check(rows, { service, signal: within ?? signal, deadlineMs })
    }, signal)
  }
}

function breakerOf ({ openMs }: PolicyOptions) {
  return circuitBreaker(handleWhen(isHeldAgainst), {
    halfOpenAfter: openMs,
    breaker: new SamplingBreaker({
      threshold: FAILING_SHARE,
      duration: SAMPLED_MS,
      minimumRps: SAMPLED_CALLS / (SAMPLED_MS / 1_000),
    }),
  })
}

/** What the input caused says nothing about the provider. */
function isHeldAgainst (error: unknown): boolean {
  return error instanceof ProviderError && error.failure !== 'rejected_input'
}

/** Only a call that was not taken costs nothing a second time, and not before it is welcome. */
function isWorthRetrying (error: unknown): boolean {
  return error instanceof ProviderError && error.failure === 'unavailable' && !error.retryAfterMs
}
