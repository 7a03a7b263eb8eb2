import { LRUCache } from 'lru-cache'
import type { Lane } from '../topology.ts'

type Resolve = () => void
/** Tenant -> its callers that wait, in their order. */
type Queues = Map<string, Resolve[]>

/** Turns of the lane `small` in a row while somebody of the lane `bulk` waits. */
const MOST_SMALL = 4
/** Tenants whose use is remembered. */
const MOST_TENANTS = 1_000

const waiting: Readonly<Record<Lane, Queues>> = { small: new Map(), bulk: new Map() }
/** Milliseconds of this thread that the turns of a tenant took; see `usedBy`. */
const used = new LRUCache<string, number>({ max: MOST_TENANTS })
/** Who was given the last turn, when, and what it had used before. */
let last = { tenant: '', startedMs: 0, usedMs: 0 }
let isScheduled = false
let smallInARow = 0

/**
 * Resolves when the caller may do a few milliseconds of work. The whole process gives one such turn
 * each time around its event loop, so that messages, heartbeats and answers that came meanwhile are
 * never further away than one of them, however many jobs are worked on. The lane `small` goes
 * first; while `bulk` waits as well, that has every fifth turn. Within a lane the tenant goes first
 * whose turns have taken the least time of those that wait (start-time fair queuing), so that
 * inputs made to take long cost nobody but their sender.
 */
export function turn (lane: Lane, tenant = ''): Promise<void> {
  return new Promise(resolve => {
    const queue = waiting[lane].get(tenant)
    if (queue === undefined) waiting[lane].set(tenant, [resolve])
    else queue.push(resolve)
    schedule()
  })
}

/** Forgets whoever waits: for a process that simulates others, one run after another. */
export function dropTurns (): void {
  waiting.small.clear()
  waiting.bulk.clear()
  used.clear()
  last = { tenant: '', startedMs: 0, usedMs: 0 }
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
  const isSmall = small.size > 0 && (bulk.size === 0 || smallInARow < MOST_SMALL)
  smallInARow = isSmall ? smallInARow + 1 : 0
  giveOneOf(isSmall ? small : bulk)
  if (small.size + bulk.size > 0) schedule()
}

function giveOneOf (queues: Queues): void {
  const [first] = [...queues].toSorted(([one], [other]) => usedBy(one) - usedBy(other))
  if (first === undefined) return
  const [tenant, queue] = first
  last = { tenant, startedMs: performance.now(), usedMs: usedBy(tenant) }
  queue.shift()?.()
  // Behind those that have used as much.
  queues.delete(tenant)
  if (queue.length > 0) queues.set(tenant, queue)
}

function charge (): void {
  const { tenant, startedMs, usedMs } = last
  used.set(tenant, usedMs + performance.now() - startedMs)
}

/** Whoever has waited for nothing in a while has saved up nothing either. */
const usedBy = (tenant: string): number => Math.max(used.get(tenant) ?? 0, last.usedMs)
