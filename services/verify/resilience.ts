import {
  BrokenCircuitError, bulkhead, circuitBreaker, CircuitState, ExponentialBackoff,
  fullJitterGenerator, handleWhen, noop, retry, SamplingBreaker, TaskCancelledError, timeout,
  TimeoutStrategy, wrap,
} from 'cockatiel'
import { type Bucket, createTokenBuckets, secondsUntil } from '../runtime/platform/limits.ts'
import { sleep } from '../runtime/platform/retry.ts'
import { ProviderError, type CheckOptions, type Provider } from './provider.ts'

export type ProviderLimits = {
  /** Timeout of a call with all its retries. */
  readonly timeoutMs: number
  /** Timeout of one attempt; that of the call if left out. */
  readonly attemptTimeoutMs?: number
  /** Maximum concurrent calls of one provider; further ones wait. */
  readonly concurrency: number
  /** Maximum retries, only of calls that the provider did not accept. */
  readonly retries: number
  readonly breaker: BreakerLimits
  /** Maximum rate of calls by this process; unlimited if left out. */
  readonly rate?: RateLimit | undefined
}

type BreakerLimits = {
  /** The circuit opens if this share of the calls within `sampledMs` fails, 0 to 1. */
  readonly failingShare: number
  readonly sampledMs: number
  /** An open circuit admits a trial call after this time. */
  readonly openMs: number
}

export type ResilienceOptions = ProviderLimits & {
  /** False for a provider with scripted failures: those of one tenant must not stop another. */
  readonly breaks: boolean
  /** A call that would wait longer for the rate fails with `rate_limited`. */
  readonly maxWaitMs?: number
  /** Called when the circuit opens, and when it closes or admits a trial call. */
  readonly onCircuit?: (isOpen: boolean) => void
}

export type Check = (
  rows: Parameters<Provider['check']>[0], options: Omit<CheckOptions, 'deadlineMs'>,
) => ReturnType<Provider['check']>

/** The circuit stays closed with fewer calls than this in the sampled time. */
const MIN_SAMPLED_CALLS = 10
const FIRST_RETRY_MS = 50
const NEVER = new AbortController().signal

/**
 * The check of a provider behind, from the outside in: bulkhead, rate limit, circuit breaker,
 * retries with a timeout for all, and a timeout per attempt. After a failure with a Retry-After,
 * all calls fail until then. The check rejects with a `ProviderError` or, if the caller's signal
 * ended it, with the reason of that signal, which is no failure of the provider. The call of a
 * provider that takes batches is not cut off by the signal, so that its reply is recorded.
 */
export function withResilience (provider: Provider, limits: ResilienceOptions): Check {
  const rate = new CallRate(limits.rate)
  // No fair slots of `limits.ts`: a call that is aborted must leave the queue at once.
  const slots = bulkhead(limits.concurrency, Number.MAX_SAFE_INTEGER)
  const breaker = limits.breaks ? breakerOf(limits.breaker, limits.onCircuit) : noop
  const attempts = withRetries(provider, { ...limits, rate })
  return async (rows, options) => {
    const { signal } = options
    const within = provider.takesBatches === true ? NEVER : signal
    const once = async () => {
      try {
        return await attempts(rows, { ...options, signal: within })
      } catch (error) {
        signal.throwIfAborted()
        if (error instanceof ProviderError && error.retryAfterMs) rate.pause(error.retryAfterMs)
        throw error
      }
    }
    try {
      return await slots.execute(async () => {
        await rate.take(signal, limits.maxWaitMs)
        return await breaker.execute(once, within)
      }, signal)
    } catch (error) {
      signal.throwIfAborted()
      throw error instanceof BrokenCircuitError ? new ProviderError('unavailable') : error
    }
  }
}

type RetryOptions = Pick<ResilienceOptions, 'timeoutMs' | 'attemptTimeoutMs' | 'retries'> & {
  readonly rate: CallRate
}

/** All attempts of a call within its timeout. Retries use up the rate, but do not wait for it. */
function withRetries (provider: Provider, options: RetryOptions): Check {
  const { timeoutMs, retries, rate } = options
  const attemptMs = Math.min(timeoutMs, options.attemptTimeoutMs ?? timeoutMs)
  const call = wrap(
    timeoutOf(timeoutMs),
    // Only a call that the provider did not accept is free to retry, unless it has a Retry-After.
    retry(handleWhen(error => error instanceof ProviderError && error.failure === 'unavailable' &&
      !error.retryAfterMs), {
      maxAttempts: retries,
      backoff: new ExponentialBackoff({
        initialDelay: FIRST_RETRY_MS, generator: fullJitterGenerator,
      }),
    }))
  const single = timeoutOf(attemptMs)
  return (rows, options) => {
    const { signal } = options
    const endsAtMs = Date.now() + timeoutMs
    return asTimeout(call.execute(({ signal: within, attempt }) => {
      if (attempt > 0) rate.charge()
      const deadlineMs = Math.min(endsAtMs, Date.now() + attemptMs)
      return asTimeout(single.execute(({ signal: inner }) =>
        provider.check(rows, { ...options, signal: inner, deadlineMs }), within ?? signal))
    }, signal))
  }
}

function timeoutOf (ms: number) {
  return timeout(ms, { strategy: TimeoutStrategy.Aggressive, abortOnReturn: true })
}

/** Turns a timeout into a ProviderError, which the outer policies recognize. */
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
  // A rejected input says nothing about the health of the provider.
  const isUnhealthy = (error: unknown) =>
    error instanceof ProviderError && error.failure !== 'rejected_input'
  const breaker = circuitBreaker(handleWhen(isUnhealthy), {
    halfOpenAfter: openMs,
    breaker: new SamplingBreaker({
      threshold: failingShare,
      duration: sampledMs,
      minimumRps: MIN_SAMPLED_CALLS / (sampledMs / 1_000),
    }),
  })
  breaker.onStateChange(state => onCircuit?.(state === CircuitState.Open))
  return breaker
}

/** At most this many calls in this time, by this process. */
type RateLimit = { readonly calls: number, readonly perMs: number }

/** Limits the Retry-After that a provider asks for. */
const MAX_PAUSE_MS = 900_000
/** The buckets have one name: each provider has its own. */
const NAME = ''

/** The rate of calls, first come, first served; without a limit only pauses stop calls. */
class CallRate {
  readonly #tokens = createTokenBuckets(undefined, 1)
  readonly #buckets: readonly [] | readonly [Bucket]
  #pausedUntilMs = 0

  constructor (limit: RateLimit | undefined) {
    this.#buckets = limit === undefined
      ? []
      : [{ capacity: limit.calls, seconds: limit.perMs / 1_000 }]
  }

  /**
   * Waits until a call may start. Rejects with `rate_limited` at once during a pause, or if the
   * wait would be longer than `maxWaitMs`; that does not count as a call.
   */
  async take (signal: AbortSignal, maxWaitMs = Infinity): Promise<void> {
    this.#throwIfPaused()
    this.charge()
    const [level] = this.#tokens.levels(NAME, this.#buckets)
    const waitMs = level === undefined ? 0 : secondsUntil(level, 0) * 1_000
    if (waitMs === 0) return
    if (waitMs > maxWaitMs) {
      this.#tokens.add(NAME, this.#buckets, 1)
      throw new ProviderError('rate_limited', waitMs)
    }
    await sleep(waitMs, signal)
    this.#throwIfPaused()
  }

  /** Counts a call that did not wait; later calls wait longer. */
  charge (): void {
    this.#tokens.add(NAME, this.#buckets, -1)
  }

  /** Rejects all calls for this time. */
  pause (ms: number): void {
    this.#pausedUntilMs = performance.now() + Math.min(ms, MAX_PAUSE_MS)
  }

  #throwIfPaused (): void {
    const leftMs = this.#pausedUntilMs - performance.now()
    if (leftMs > 0) throw new ProviderError('rate_limited', leftMs)
  }
}
