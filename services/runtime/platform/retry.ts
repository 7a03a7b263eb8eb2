import { setTimeout as delay } from 'node:timers/promises'

/** Milliseconds since 1970. Times of different clocks cannot be compared. */
export type Clock = { readonly now: () => number }

/** The clock of this machine: for logs, never for deadlines that other processes check too. */
export const systemClock: Clock = { now: () => Date.now() }

export type Backoff = {
  /** Upper bound of the first pause; it doubles with each attempt. */
  readonly firstMs?: number
  readonly maxMs?: number
  /** A number from 0 to 1; replaced in simulations, which must be reproducible. */
  readonly random?: (() => number) | undefined
}

export type RetryOptions = Backoff & {
  readonly signal?: AbortSignal | undefined
  /** Whether an error is retriable; all others are thrown at once. */
  readonly when?: (error: unknown) => boolean
  /** Called for each failure before the pause. */
  readonly onRetry?: (error: unknown, attempt: number) => void
  readonly sleep?: Sleep | undefined
}

export type Sleep = (ms: number, signal?: AbortSignal) => Promise<void>

/** Waits; rejects with the signal's reason when it is aborted. */
export const sleep: Sleep = async (ms, signal) => {
  try {
    await delay(ms, undefined, signal === undefined ? {} : { signal })
  } catch (error) {
    signal?.throwIfAborted()
    throw error
  }
}

/** Resolves when the work ends or the time is over; rejects if the work fails before. */
export async function withTimeout (work: Promise<unknown> | undefined, ms: number): Promise<void> {
  const late = Promise.withResolvers<void>()
  const timer = setTimeout(late.resolve, Math.max(ms, 0))
  await Promise.race([work, late.promise]).finally(() => clearTimeout(timer))
}

/** The result of work, which goes on after an abort; undefined if the signal is aborted first. */
export async function unlessAborted<T> (
  work: Promise<T>, signal: AbortSignal
): Promise<T | undefined> {
  const aborted = Promise.withResolvers<undefined>()
  const stop = () => aborted.resolve(undefined)
  if (signal.aborted) stop()
  signal.addEventListener('abort', stop, { once: true })
  try {
    // Also handles a later failure of the work, which would end the process otherwise.
    return await Promise.race([aborted.promise, work])
  } finally {
    signal.removeEventListener('abort', stop)
  }
}

/** Exponential backoff with full jitter, in milliseconds; `attempt` counts from 1. */
export function backoffMs (
  attempt: number, { firstMs = 100, maxMs = 10_000, random = Math.random }: Backoff = {}
): number {
  return Math.ceil(random() * Math.min(maxMs, firstMs * 2 ** Math.min(attempt - 1, 30)))
}

/** Retries until the action succeeds or the signal is aborted, whose reason is thrown then. */
export function retryForever<T> (action: () => Promise<T>, options: RetryOptions = {}): Promise<T> {
  return retry(Infinity, action, options)
}

/** Tries at most `tries` times and throws the last failure. */
export async function retry<T> (
  tries: number, action: () => Promise<T>, options: RetryOptions = {}
): Promise<T> {
  const { signal, when = () => true, onRetry, sleep: pause = sleep } = options
  for (let attempt = 1; ; attempt++) {
    signal?.throwIfAborted()
    try {
      return await action()
    } catch (error) {
      if (attempt >= tries || !when(error)) throw error
      onRetry?.(error, attempt)
    }
    await pause(backoffMs(attempt, options), signal)
  }
}

/** Repeats an action with a pause in between, until the signal is aborted. */
export function createRepeat (signal: AbortSignal, onError: (error: unknown) => void) {
  return async (everyMs: number, action: () => Promise<void>): Promise<void> => {
    while (!signal.aborted) {
      try {
        await action()
      } catch (error) {
        if (signal.aborted) return
        onError(error)
      }
      if (everyMs > 0) await sleep(everyMs, signal).catch(() => {})
    }
  }
}

/** Repeats an action likewise until it is stopped; the last one ends before that. */
export function startRepeating (
  everyMs: number, action: (signal: AbortSignal) => Promise<void>,
  onError: (error: unknown) => void
): { readonly stop: () => Promise<void> } {
  const stopping = new AbortController()
  const { signal } = stopping
  const ended = createRepeat(signal, onError)(everyMs, () => action(signal))
  return {
    stop: async () => {
      stopping.abort()
      await ended
    },
  }
}
