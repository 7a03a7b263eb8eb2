import { createFairQueue, createFairShares } from './fair-shares.ts'

/** Whom an action is for, and its cost in any unit. */
export type SlotRequest = { readonly name: string, readonly cost: number }

export type FairSlots = {
  /** Runs the action when its cost fits; waiting actions start in the order of fair shares. */
  readonly run: <T>(request: SlotRequest, action: () => Promise<T>) => Promise<T>
}

export type FairSlotsOptions = {
  /** Maximum total cost of the actions in progress, unless a single one costs more. */
  readonly capacity: number
  /** The cost by which a name that was idle goes before busy ones. */
  readonly maxCredit: number
}

type Waiting = { readonly cost: number, readonly start: () => void }

/** Limits the total cost of concurrent actions, and shares the capacity fairly between names. */
export function createFairSlots ({ capacity, maxCredit }: FairSlotsOptions): FairSlots {
  const shares = createFairShares(maxCredit)
  const waiting = createFairQueue<Waiting>(shares)
  let used = 0
  const startNext = () => {
    for (let next = waiting.peek(); next !== undefined; next = waiting.peek()) {
      if (used > 0 && used + next.cost > capacity) return
      const taken = waiting.take()
      if (taken === undefined) return
      used += taken.item.cost
      shares.addUsage(taken.name, taken.item.cost)
      taken.item.start()
    }
  }
  return {
    run: async ({ name, cost }, action) => {
      await new Promise<void>(resolve => {
        waiting.add(name, { cost, start: resolve })
        startNext()
      })
      try {
        return await action()
      } finally {
        used -= cost
        startNext()
      }
    },
  }
}
