import type { Lane } from '../topology.ts'
import { createFairShares } from './fair-shares.ts'

type Resolve = () => void
/** Tenant -> its callers that wait, in their order. */
type Queues = Map<string, Resolve[]>

/** Turns of the lane `small` in a row while somebody of the lane `bulk` waits. */
const MAX_SMALL = 4

const waiting: Readonly<Record<Lane, Queues>> = { small: new Map(), bulk: new Map() }
/** By milliseconds of this thread. */
const shares = createFairShares()
/** Who was given the last turn, and when. */
let last: { readonly tenant: string, readonly startedMs: number } | undefined
let isScheduled = false
let smallInARow = 0

/**
 * Resolves when the caller may do a few milliseconds of work. The whole process gives one such turn
 * each time around its event loop, so that messages, heartbeats and answers that came meanwhile are
 * never further away than one of them, however many jobs are worked on. The lane `small` goes
 * first; while `bulk` waits as well, that has every fifth turn. Within a lane the tenant goes first
 * whose turns have taken the least time of those that wait, so that inputs made to take long cost
 * nobody but their sender.
 */
export function yieldToEventLoop (lane: Lane, tenant = ''): Promise<void> {
  return new Promise(resolve => {
    const queue = waiting[lane].get(tenant)
    if (queue === undefined) waiting[lane].set(tenant, [resolve])
    else queue.push(resolve)
    schedule()
  })
}

/** Forgets whoever waits: for a process that simulates others, one run after another. */
export function dropYields (): void {
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
  setImmediate(give)
  // The work of a turn is done by the microtasks between one immediate and the next.
  setImmediate(charge)
}

function give (): void {
  isScheduled = false
  const { small, bulk } = waiting
  const isSmall = small.size > 0 && (bulk.size === 0 || smallInARow < MAX_SMALL)
  smallInARow = isSmall ? smallInARow + 1 : 0
  giveOneOf(isSmall ? small : bulk)
  if (small.size + bulk.size > 0) schedule()
}

function giveOneOf (queues: Queues): void {
  const tenant = shares.next(queues.keys())
  const queue = queues.get(tenant ?? '')
  if (tenant === undefined || queue === undefined) return
  last = { tenant, startedMs: performance.now() }
  queue.shift()?.()
  // Behind those that have used as much.
  queues.delete(tenant)
  if (queue.length > 0) queues.set(tenant, queue)
}

function charge (): void {
  if (last !== undefined) shares.charge(last.tenant, performance.now() - last.startedMs)
  last = undefined
}
