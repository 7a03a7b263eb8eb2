import type { Lane } from '../topology.ts'
import { createFairShares } from './fair-shares.ts'

type Resolve = () => void
/** The waiting callers of each tenant, first come first. */
type Queues = Map<string, Resolve[]>

/** Maximum number of slots in a row for the lane `small` while `bulk` waits. */
const MAX_SMALL = 4

const waiting: Readonly<Record<Lane, Queues>> = { small: new Map(), bulk: new Map() }
/** In milliseconds of this thread. */
const shares = createFairShares()
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
    const queue = waiting[lane].get(tenant)
    if (queue === undefined) waiting[lane].set(tenant, [resolve])
    else queue.push(resolve)
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
  setImmediate(charge)
}

function grantSlot (): void {
  isScheduled = false
  const { small, bulk } = waiting
  const isSmall = small.size > 0 && (bulk.size === 0 || smallInARow < MAX_SMALL)
  smallInARow = isSmall ? smallInARow + 1 : 0
  resumeOneOf(isSmall ? small : bulk)
  if (small.size + bulk.size > 0) schedule()
}

function resumeOneOf (queues: Queues): void {
  const tenant = shares.next(queues.keys())
  const queue = queues.get(tenant ?? '')
  if (tenant === undefined || queue === undefined) return
  last = { tenant, startedMs: performance.now() }
  queue.shift()?.()
  // Moves the tenant behind those with the same CPU time.
  queues.delete(tenant)
  if (queue.length > 0) queues.set(tenant, queue)
}

function charge (): void {
  if (last !== undefined) shares.addUsage(last.tenant, performance.now() - last.startedMs)
  last = undefined
}
