import type { Sleep } from '../lib/retry.ts'
import { ProviderError } from './provider.ts'

/** At most so many calls in so many milliseconds, by this process. */
export type RateLimit = { readonly calls: number, readonly perMs: number }

export type Rate = {
  /**
   * Waits for its turn; throws `rate_limited` at once while the provider is to be left alone or
   * when the turn would come after `longestMs`, which then costs no turn.
   */
  readonly take: (signal: AbortSignal, longestMs?: number) => Promise<void>
  /** A call that was made without waiting; later ones wait longer for it. */
  readonly charge: () => void
  /** The provider wants to be left alone for so long. */
  readonly pause: (ms: number) => void
}

export type RateOptions = {
  /** Milliseconds of a clock that never goes back. */
  readonly now: () => number
  readonly sleep: Sleep
}

/** Nobody waits longer for a provider, whatever it asks for. */
const LONGEST_PAUSE_MS = 900_000

/** A token bucket in the order of asking; without a limit only pauses hold calls back. */
export function createRate (limit: RateLimit | undefined, { now, sleep }: RateOptions): Rate {
  let tokens = limit?.calls ?? 0
  let filledAtMs = now()
  let pausedUntilMs = 0
  const charge = (calls = 1) => {
    if (limit === undefined) return
    const gained = (now() - filledAtMs) * limit.calls / limit.perMs
    tokens = Math.min(limit.calls, tokens + gained) - calls
    filledAtMs = now()
  }
  const throwIfPaused = () => {
    const leftMs = pausedUntilMs - now()
    if (leftMs > 0) throw new ProviderError('rate_limited', leftMs)
  }
  return {
    charge: () => charge(),
    pause: (ms) => { pausedUntilMs = now() + Math.min(ms, LONGEST_PAUSE_MS) },
    take: async (signal, longestMs = Infinity) => {
      throwIfPaused()
      charge()
      if (limit === undefined || tokens >= 0) return
      const waitMs = -tokens * limit.perMs / limit.calls
      if (waitMs > longestMs) {
        charge(-1)
        throw new ProviderError('rate_limited', waitMs)
      }
      await sleep(waitMs, signal)
      throwIfPaused()
    },
  }
}
