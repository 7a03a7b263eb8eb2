import { LRUCache } from 'lru-cache'

export type FairShares = {
  /** Which of these has used least, the first of equals; undefined when there are none. */
  readonly next: (names: Iterable<string>) => string | undefined
  /** What a turn cost, in any unit, once that is known. */
  readonly charge: (name: string, cost: number) => void
  readonly clear: () => void
}

/** Names whose use is remembered. */
const MAX_NAMES = 1_000

/**
 * Start-time fair queuing: who waits gets as much as everybody else who waits, however much each
 * asks for. A name that has waited for nothing in a while has saved up nothing and owes nothing.
 */
export function createFairShares (): FairShares {
  const used = new LRUCache<string, number>({ max: MAX_NAMES })
  /** What the one had used whose turn came last. */
  let level = 0
  const usedBy = (name: string): number => Math.max(used.get(name) ?? 0, level)
  return {
    next: names => {
      const [first] = [...names].toSorted((one, other) => usedBy(one) - usedBy(other))
      if (first !== undefined) level = usedBy(first)
      return first
    },
    charge: (name, cost) => { used.set(name, usedBy(name) + cost) },
    clear: () => {
      used.clear()
      level = 0
    },
  }
}
