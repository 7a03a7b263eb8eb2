/** A counting semaphore for what is in memory. */
export type Capacity = {
  readonly take: (count: number) => void
  readonly release: (count: number) => void
  readonly used: () => number
  /**
   * Resolves once the use is below the limit by more than `margin`, which is 0 by default, or the
   * signal is aborted.
   */
  readonly untilFree: (signal: AbortSignal, margin?: () => number) => Promise<void>
}

/** Capacity for this many. `take` may exceed it, because messages arrive in batches. */
export function createCapacity (limit: number): Capacity {
  const waiting = new Set<() => void>()
  let used = 0
  return {
    take: count => { used += count },
    release: count => {
      used -= count
      for (const proceed of [...waiting]) proceed()
    },
    used: () => used,
    untilFree: async (signal, margin = () => 0) => {
      while (used + margin() >= limit && !signal.aborted) {
        await new Promise<void>(resolve => {
          const proceed = () => {
            waiting.delete(proceed)
            signal.removeEventListener('abort', proceed)
            resolve()
          }
          waiting.add(proceed)
          signal.addEventListener('abort', proceed, { once: true })
        })
      }
    },
  }
}
