import { setTimeout as delay } from 'node:timers/promises'

export type Backoff = {
  /** Bound of the first pause; it doubles with each further one. */
  readonly firstMs?: number
  readonly maxMs?: number
  /** A number from 0 to 1; replaced where runs have to repeat themselves. */
  readonly random?: () => number
}

export type RetryOptions = Backoff & {
  readonly signal?: AbortSignal | undefined
  /** Which failures are worth another try; all others are thrown at once. */
  readonly when?: (error: unknown) => boolean
  /** Told of each failure before the pause, for logs and counts. */
  readonly onRetry?: (error: unknown, attempt: number) => void
  readonly sleep?: Sleep
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

/** Resolves when the work does, or after that time at the latest; fails as the work does before. */
export async function withTimeout (work: Promise<unknown> | undefined, ms: number): Promise<void> {
  const over = new AbortController()
  const late = sleep(Math.max(ms, 0), over.signal).catch(() => {})
  await Promise.race([work, late]).finally(() => over.abort())
}

/** A random pause below a bound that doubles: full jitter, so that callers come back apart. */
export function backoffMs (
  attempt: number, { firstMs = 100, maxMs = 10_000, random = Math.random }: Backoff = {}
): number {
  return Math.ceil(random() * Math.min(maxMs, firstMs * 2 ** Math.min(attempt - 1, 30)))
}

/** Tries until it works or the signal is aborted, whose reason is then thrown. */
export function retryForever<T> (action: () => Promise<T>, options: RetryOptions = {}): Promise<T> {
  return retry(Infinity, action, options)
}

/** Tries at most so often; the last failure is thrown. */
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
