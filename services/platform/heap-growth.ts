import { constants, PerformanceObserver, type PerformanceEntry } from 'node:perf_hooks'
import { setFlagsFromString } from 'node:v8'

/** The growth under low load, where collections are cheap. */
const IDLE_PERCENT = 40
/** A process under load needs a major collection at least this often. */
const BUSY_MS = 15_000

/** A garbage collection, as reported by Node. */
type Collection = PerformanceEntry & { readonly detail: { readonly kind: number } }

type GrowthOptions = {
  /** The growth under load. */
  readonly percent: number
  /** Applies a new percentage; V8 uses it from the next collection. */
  readonly set: (percent: number) => void
}

/**
 * Adapts V8's heap growth, in percent of the live heap, to the load: low while major collections
 * are rare, which saves memory, and `percent` while they are frequent, which saves CPU time.
 * Returns a function to call with the kind of each collection.
 */
export function createHeapGrowth ({ percent, set }: GrowthOptions): (kind: number) => void {
  let current = NaN
  const change = (next: number) => {
    if (next !== current) set(next)
    current = next
  }
  const becomeIdle = () => change(Math.min(IDLE_PERCENT, percent))
  const timer = setTimeout(becomeIdle, BUSY_MS).unref()
  becomeIdle()
  return kind => {
    if (kind !== constants.NODE_PERFORMANCE_GC_MAJOR) return
    change(percent)
    timer.refresh()
  }
}

/** Adapts the heap growth of this process from now on. */
export function limitHeapGrowth (percent: number): void {
  const set = (next: number) => setFlagsFromString(`--heap-growing-percent=${next}`)
  const collected = createHeapGrowth({ percent, set })
  new PerformanceObserver(list => {
    for (const entry of list.getEntries() as Collection[]) collected(entry.detail.kind)
  }).observe({ entryTypes: ['gc'] })
}
