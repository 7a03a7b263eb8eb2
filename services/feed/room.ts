/** A number of places; whoever brings contacts waits while they are taken. */
export type Room = {
  readonly take: (places: number) => void
  readonly release: (places: number) => void
  readonly taken: () => number
  /** Resolves once there is a free place, or the signal is aborted. */
  readonly free: (signal: AbortSignal) => Promise<void>
}

/** Room for so many contacts. What was read is never refused, so `take` may go beyond it. */
export function createRoom (places: number): Room {
  const waiting = new Set<() => void>()
  let taken = 0
  const free = async (signal: AbortSignal): Promise<void> => {
    const isFull = () => taken >= places
    while (isFull() && !signal.aborted) {
      await new Promise<void>(resolve => {
        const go = () => {
          waiting.delete(go)
          signal.removeEventListener('abort', go)
          resolve()
        }
        waiting.add(go)
        signal.addEventListener('abort', go, { once: true })
      })
    }
  }
  return {
    take: more => { taken += more },
    release: less => {
      taken -= less
      for (const go of [...waiting]) go()
    },
    taken: () => taken,
    free,
  }
}
