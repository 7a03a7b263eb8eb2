import { constants, PerformanceObserver, type PerformanceEntry } from 'node:perf_hooks'
import { setFlagsFromString } from 'node:v8'

/** So far a heap may grow under little load, where to clean it up costs next to nothing. */
const QUIET_PERCENT = 40
/** Whoever has much to do fills its heap again within that time. */
const BUSY_MS = 15_000

/** A collection as the runtime tells it. */
type Collection = PerformanceEntry & { readonly detail: { readonly kind: number } }

type GrowthOptions = {
  /** While there is much to do. */
  readonly percent: number
  /** Told of each new percentage; it counts from the collection on that comes next. */
  readonly set: (percent: number) => void
}

/**
 * How far the heap may grow until it is cleaned up again, in percent of what it holds after that:
 * little, so that memory stays where it is under little load, and as far as `percent` says, which
 * is less work, as long as it is cleaned up every few seconds. To be told of every collection.
 */
export function createHeapGrowth ({ percent, set }: GrowthOptions): (kind: number) => void {
  let current = NaN
  const change = (next: number) => {
    if (next !== current) set(next)
    current = next
  }
  const quiet = () => change(Math.min(QUIET_PERCENT, percent))
  const timer = setTimeout(quiet, BUSY_MS).unref()
  quiet()
  return kind => {
    if (kind !== constants.NODE_PERFORMANCE_GC_MAJOR) return
    change(percent)
    timer.refresh()
  }
}

/** Limits the heap of this process by it, from now on. */
export function limitHeapGrowth (percent: number): void {
  const set = (next: number) => setFlagsFromString(`--heap-growing-percent=${next}`)
  const collected = createHeapGrowth({ percent, set })
  new PerformanceObserver(list => {
    for (const entry of list.getEntries() as Collection[]) collected(entry.detail.kind)
  }).observe({ entryTypes: ['gc'] })
}
