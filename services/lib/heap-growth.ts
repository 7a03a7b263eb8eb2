import { constants, PerformanceObserver } from 'node:perf_hooks'
import { setFlagsFromString } from 'node:v8'

/** So far a heap may grow that fills slowly: to clean it up often costs next to nothing then. */
const SLOW_PERCENT = 40
/** It fills slowly when it grows by less than that. */
const SLOW_PERCENT_A_SECOND = 10

/** A garbage collection as the runtime tells it: `detail` has its kind. */
type Collection = { readonly startTime: number, readonly detail?: unknown }

/**
 * Says how far the heap may grow until it is cleaned up again, in percent of what it holds after
 * that, by how fast it filled the last time: at first, and under little load, so little that memory
 * stays where it is; while there is much to do so far as `percent` says, which is less work.
 */
export function createHeapGrowth (percent: number) {
  let current = Math.min(SLOW_PERCENT, percent)
  let cleanedUpMs = 0
  return {
    percent: (): number => current,
    /** To be told of every collection; only those of the whole heap count. */
    collected: ({ startTime, detail }: Collection): void => {
      if ((detail as { kind?: number }).kind !== constants.NODE_PERFORMANCE_GC_MAJOR) return
      const seconds = (startTime - cleanedUpMs) / 1_000
      const isSlow = current / seconds < SLOW_PERCENT_A_SECOND
      current = isSlow ? Math.min(SLOW_PERCENT, percent) : percent
      cleanedUpMs = startTime
    },
  }
}

/** Limits the heap of this process by it, from now on. */
export function limitHeapGrowth (percent: number): void {
  const growth = createHeapGrowth(percent)
  let set = NaN
  const apply = () => {
    if (set === growth.percent()) return
    set = growth.percent()
    setFlagsFromString(`--heap-growing-percent=${set}`)
  }
  apply()
  new PerformanceObserver(list => {
    for (const entry of list.getEntries()) growth.collected(entry)
    apply()
  }).observe({ entryTypes: ['gc'] })
}
