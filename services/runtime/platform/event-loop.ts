import type { Lane } from '../../topology.ts'
import { createFairQueue, createFairShares } from './limits.ts'

type Resolve = () => void

/** Maximum number of slots in a row for the lane `small` while `bulk` waits. */
const MAX_SMALL = 4

/** Thread time of a job of some 20,000 rows in most stages. */
const MAX_CREDIT_MS = 250

/**
 * A scheduler for CPU work. The process grants one slot per iteration of the event loop, so
 * messages, heartbeats and responses wait for at most one slot, however many jobs are in progress.
 */
class EventLoop {
  /** In milliseconds of this thread. */
  readonly #shares = createFairShares(MAX_CREDIT_MS)
  /** The waiting callers by tenant. */
  readonly #waiting = {
    small: createFairQueue<Resolve>(this.#shares), bulk: createFairQueue<Resolve>(this.#shares),
  }

  /** The tenant that runs in the current slot. */
  #last: { readonly tenant: string, readonly startedMs: number } | undefined
  #isScheduled = false
  #smallInARow = 0

  /**
   * Resolves when the caller may do a few milliseconds of work. The lane `small` goes first, but
   * `bulk` gets every fifth slot. Within a lane the tenant with the least CPU time goes first, so
   * expensive inputs delay only their sender.
   */
  yield (lane: Lane, tenant = ''): Promise<void> {
    return new Promise(resolve => {
      this.#waiting[lane].add(tenant, resolve)
      this.#schedule()
    })
  }

  /** Drops all waiting callers, for example between two simulated runs of one process. */
  clear (): void {
    this.#waiting.small.clear()
    this.#waiting.bulk.clear()
    this.#shares.clear()
    this.#last = undefined
    this.#isScheduled = false
    this.#smallInARow = 0
  }

  #schedule (): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    setImmediate(() => this.#grantSlot())
    // The work of a slot runs in the microtasks between these two immediates.
    setImmediate(() => {
      if (this.#last === undefined) return
      this.#shares.addUsage(this.#last.tenant, performance.now() - this.#last.startedMs)
      this.#last = undefined
    })
  }

  #grantSlot (): void {
    this.#isScheduled = false
    const { small, bulk } = this.#waiting
    const isSmall = !small.isEmpty() && (bulk.isEmpty() || this.#smallInARow < MAX_SMALL)
    this.#smallInARow = isSmall ? this.#smallInARow + 1 : 0
    const taken = (isSmall ? small : bulk).take()
    if (taken !== undefined) {
      this.#last = { tenant: taken.name, startedMs: performance.now() }
      taken.item()
    }
    if (!small.isEmpty() || !bulk.isEmpty()) this.#schedule()
  }
}

/** The scheduler of this process. */
export const eventLoop = new EventLoop()
