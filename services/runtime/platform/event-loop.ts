import type { Lane } from '../../topology.ts'
import { createFairQueue, createFairShares } from './limits.ts'

type Resolve = () => void

/** Maximum number of slots in a row for the lane `small` while `bulk` waits. */
const MAX_SMALL = 4

/** Thread time of a job of some 20,000 rows in most stages. */
const MAX_CREDIT_MS = 250

/** In milliseconds of this thread. */
const shares = createFairShares(MAX_CREDIT_MS)
/** The waiting callers by tenant. */
const waiting = { small: createFairQueue<Resolve>(shares), bulk: createFairQueue<Resolve>(shares) }
/** The tenant that runs in the current slot. */
let last: { readonly tenant: string, readonly startedMs: number } | undefined
let isScheduled = false
let smallInARow = 0

/**
 * A scheduler for CPU work: resolves when the caller may do a few milliseconds of work. The process
 * grants one slot per iteration of the event loop, so messages, heartbeats and responses wait for
 * at most one slot, however many jobs are in progress. The lane `small` goes first, but `bulk` gets
 * every fifth slot. Within a lane the tenant with the least CPU time goes first, so expensive
 * inputs delay only their sender.
 */
export function yieldToEventLoop (lane: Lane, tenant = ''): Promise<void> {
  return new Promise(resolve => {
    waiting[lane].add(tenant, resolve)
    schedule()
  })
}

/** Drops all waiting callers, between two runs of a simulation in one process. */
export function resetScheduler (): void {
  waiting.small.clear()
  waiting.bulk.clear()
  shares.clear()
  last = undefined
  isScheduled = false
  smallInARow = 0
}

function schedule (): void {
  if (isScheduled) return
  isScheduled = true
  setImmediate(grantSlot)
  // The work of a slot runs in the microtasks between these two immediates.
  setImmediate(() => {
    if (last !== undefined) shares.addUsage(last.tenant, performance.now() - last.startedMs)
    last = undefined
  })
}

function grantSlot (): void {
  isScheduled = false
  const { small, bulk } = waiting
  const isSmall = !small.isEmpty() && (bulk.isEmpty() || smallInARow < MAX_SMALL)
  smallInARow = isSmall ? smallInARow + 1 : 0
  const taken = (isSmall ? small : bulk).take()
  if (taken !== undefined) {
    last = { tenant: taken.name, startedMs: performance.now() }
    taken.item()
  }
  if (!small.isEmpty() || !bulk.isEmpty()) schedule()
}
