import type { Lane } from '../topology.ts'

const waiting: Readonly<Record<Lane, (() => void)[]>> = { small: [], bulk: [] }
let isScheduled = false

/**
 * Resolves when the caller may do a few milliseconds of work. The whole process gives one such turn
 * each time around its event loop, so that messages, heartbeats and answers that came meanwhile are
 * never further away than one of them, however many jobs are worked on. The lane `small` goes
 * first.
 */
export function turn (lane: Lane): Promise<void> {
  return new Promise(resolve => {
    waiting[lane].push(resolve)
    schedule()
  })
}

function schedule (): void {
  if (isScheduled) return
  isScheduled = true
  setImmediate(give)
}

function give (): void {
  isScheduled = false
  const take = waiting.small.shift() ?? waiting.bulk.shift()
  take?.()
  if (waiting.small.length + waiting.bulk.length > 0) schedule()
}
