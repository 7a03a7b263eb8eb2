import { LRUCache } from 'lru-cache'

export type FairShares = {
  /** The name with the least use, the first of equals; undefined without names. */
  readonly next: (names: Iterable<string>) => string | undefined
  /** Adds the cost of a slot, in any unit, once it is known. */
  readonly addUsage: (name: string, cost: number) => void
  readonly clear: () => void
}

const MAX_NAMES = 1_000

/**
 * Start-time fair queuing: all waiting names get the same share, whatever their slots cost. A name
 * that was idle has neither credit nor debt.
 */
export function createFairShares (): FairShares {
  const used = new LRUCache<string, number>({ max: MAX_NAMES })
  /** The use of the name that had the last slot. */
  let level = 0
  const usedBy = (name: string): number => Math.max(used.get(name) ?? 0, level)
  return {
    next: names => {
      const [first] = [...names].toSorted((one, other) => usedBy(one) - usedBy(other))
      if (first !== undefined) level = usedBy(first)
      return first
    },
    addUsage: (name, cost) => { used.set(name, usedBy(name) + cost) },
    clear: () => {
      used.clear()
      level = 0
    },
  }
}
