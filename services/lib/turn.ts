import type { Lane } from '../topology.ts'

type Queue = Readonly<Record<Lane, (() => void)[]>>

/** Turns of the lane `small` in a row while somebody of the lane `bulk` waits. */
const MOST_SMALL = 4

const waiting: Queue = { small: [], bulk: [] }
let isScheduled = false
let smallInARow = 0

/**
 * Resolves when the caller may do a few milliseconds of work. The whole process gives one such turn
 * each time around its event loop, so that messages, heartbeats and answers that came meanwhile are
 * never further away than one of them, however many jobs are worked on. The lane `small` goes
 * first; while `bulk` waits as well, that has every fifth turn.
 */
export function turn (lane: Lane): Promise<void> {
  return new Promise(resolve => {
    waiting[lane].push(resolve)
    schedule()
  })
}

/** Forgets whoever waits: for a process that simulates others, one run after another. */
export function dropTurns (): void {
  waiting.small.length = 0
  waiting.bulk.length = 0
  isScheduled = false
  smallInARow = 0
}

function schedule (): void {
  if (isScheduled) return
  isScheduled = true
  setImmediate(give)
}

function give (): void {
  isScheduled = false
  const { small, bulk } = waiting
  const isSmall = small.length > 0 && (bulk.length === 0 || smallInARow < MOST_SMALL)
  smallInARow = isSmall ? smallInARow + 1 : 0
  const take = (isSmall ? small : bulk).shift()
  take?.()
  if (small.length + bulk.length > 0) schedule()
}
