import {
  BrokenCircuitError, bulkhead, circuitBreaker, ExponentialBackoff, handleWhen, noop, retry,
  SamplingBreaker, TaskCancelledError, timeout, TimeoutStrategy, wrap,
} from 'cockatiel'
import { ProviderError, type CheckOptions, type Provider } from './provider.ts'

export type PolicyLimits = {
  /** A call with all its tries lasts at most so long. */
  readonly timeoutMs: number
  /** Calls of one provider under way at the same time; further ones wait. */
  readonly concurrency: number
  /** Tries after the first, only of calls the provider could not take at all. */
  readonly retries: number
  /** An open circuit lets one call through after so long. */
  readonly openMs: number
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
 * of 30 s failed), timeout over all tries, retry. Every way it can fail is a `ProviderError` then;
 * when the caller's own signal ended the call, that signal's reason is thrown instead, and nothing
 * is held against the provider.
 */
export function withPolicies (provider: Provider, options: PolicyOptions): Check {
  const outer = wrap(
    bulkhead(options.concurrency, Number.MAX_SAFE_INTEGER),
    options.breaks ? breakerOf(options) : noop)
  const inner = wrap(
    timeout(options.timeoutMs, { strategy: TimeoutStrategy.Aggressive, abortOnReturn: true }),
    retry(handleWhen(isWorthRetrying), {
      maxAttempts: options.retries,
      backoff: new ExponentialBackoff({ initialDelay: FIRST_PAUSE_MS }),
    }))
  return async (rows, { service, signal }) => {
    const once = async () => {
      const deadlineMs = Date.now() + options.timeoutMs
      try {
        return await inner.execute(({ signal: within }) =>
          provider.check(rows, { service, signal: within ?? signal, deadlineMs }), signal)
      } catch (error) {
        signal.throwIfAborted()
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

/** Only a call that was not taken costs nothing a second time. */
function isWorthRetrying (error: unknown): boolean {
  return error instanceof ProviderError && error.failure === 'unavailable'
}
