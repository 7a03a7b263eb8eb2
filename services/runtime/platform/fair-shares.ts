import { LRUCache } from 'lru-cache'

export type FairShares = {
  /** The name with the least use, the first of equals; undefined without names. */
  readonly next: (names: Iterable<string>) => string | undefined
  /** Adds the cost of a slot, in any unit, once it is known. */
  readonly addUsage: (name: string, cost: number) => void
  /** Whether a name was idle and goes before busy ones. */
  readonly hasCredit: (name: string) => boolean
  readonly clear: () => void
}

/** Items that wait by name, each name first come, first served. */
export type FairQueue<T> = {
  readonly add: (name: string, item: T) => void
  /** The item that `take` would return. */
  readonly peek: () => T | undefined
  /** Removes the first item of the allowed name with the least use; by default all are allowed. */
  readonly take: (isAllowed?: (name: string) => boolean) =>
  { readonly name: string, readonly item: T } | undefined
  /** The first item of each name. */
  readonly heads: () => readonly T[]
  /** Removes all items. */
  readonly clear: () => readonly T[]
  readonly isEmpty: () => boolean
}

const MAX_NAMES = 1_000

/**
 * Start-time fair queuing: all waiting names get the same share, whatever their slots cost. A name
 * that was idle has no debt. It has a credit of up to `maxCredit`, in the unit of the costs: until
 * that is spent it goes before busy names, so a large load hardly delays a small one.
 */
export function createFairShares (maxCredit = 0): FairShares {
  const used = new LRUCache<string, number>({ max: MAX_NAMES })
  /** The highest use with which a name has had a slot: that of names that are always waiting. */
  let level = 0
  const usedBy = (name: string): number =>
    Math.max(used.get(name) ?? -Infinity, level - maxCredit)
  return {
    next: names => {
      const [first] = [...names].toSorted((one, other) => usedBy(one) - usedBy(other))
      return first
    },
    addUsage: (name, cost) => {
      const before = usedBy(name)
      level = Math.max(level, before)
      used.set(name, before + cost)
    },
    hasCredit: name => usedBy(name) < level,
    clear: () => {
      used.clear()
      level = 0
    },
  }
}

/** An empty queue. The caller adds the usage of what it takes to the shares. */
export function createFairQueue<T> (shares: FairShares): FairQueue<T> {
  const queues = new Map<string, T[]>()
  const heads = () => [...queues.values()].flatMap(([first]) => first === undefined ? [] : [first])
  return {
    add: (name, item) => {
      const queue = queues.get(name)
      if (queue === undefined) queues.set(name, [item])
      else queue.push(item)
    },
    peek: () => queues.get(shares.next(queues.keys()) ?? '')?.[0],
    take: (isAllowed = () => true) => {
      const name = shares.next([...queues.keys()].filter(isAllowed))
      const queue = queues.get(name ?? '')
      const item = queue?.shift()
      if (name === undefined || queue === undefined || item === undefined) return undefined
      // Moves the name behind those with the same use.
      queues.delete(name)
      if (queue.length > 0) queues.set(name, queue)
      return { name, item }
    },
    heads,
    clear: () => {
      const items = [...queues.values()].flat()
      queues.clear()
      return items
    },
    isEmpty: () => queues.size === 0,
  }
}
