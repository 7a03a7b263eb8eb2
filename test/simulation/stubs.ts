import { createJobStore } from '../../services/jobs/store.ts'
import { createLog } from '../../services/runtime/platform/log.ts'
import type { Metrics } from '../../services/runtime/platform/metrics.ts'

/** Metrics that are not recorded: a run restarts stages hundreds of times. */
export const noMetrics: Metrics = {
  count: () => {},
  observe: () => {},
  watch: () => {},
  watchAll: () => {},
  text: async () => '',
  contentType: '',
}

/** A log that writes nothing. */
export const silent = createLog('simulation', { level: 'silent' })

/**
 * Memoizes what depends on a connection only: reading scripts and configuration again for each
 * simulated process would take longer than the rest of its work.
 */
export function oncePer<K extends object, V> (make: (key: K) => V): (key: K) => V {
  const made = new WeakMap<K, V>()
  return key => {
    const known = made.get(key) ?? make(key)
    made.set(key, known)
    return known
  }
}

/** The job store of a connection. */
export const jobsOf = oncePer(createJobStore)
