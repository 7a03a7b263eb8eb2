import { sleep } from '../platform/retry.ts'

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
