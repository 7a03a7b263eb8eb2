import { createJobStore } from '../../services/jobs/store.ts'
import { createLog } from '../../services/platform/log.ts'
import type { Metrics } from '../../services/platform/metrics.ts'

/** A run restarts stages hundreds of times, and nobody reads what they measure. */
export const noMetrics: Metrics = {
  count: () => {},
  observe: () => {},
  watch: () => {},
  watchAll: () => {},
  text: async () => '',
  contentType: '',
}

/** What a run logs nobody reads either. */
export const silent = createLog('simulation', { level: 'silent' })

/**
 * What is made of a connection and keeps nothing else, made once a connection: reading scripts and
 * configuration anew for each simulated process would take longer than all that it does.
 */
export function oncePer<K extends object, V> (make: (key: K) => V): (key: K) => V {
  const made = new WeakMap<K, V>()
  return key => {
    const known = made.get(key) ?? make(key)
    made.set(key, known)
    return known
  }
}

/** The jobs of a connection. */
export const jobsOf = oncePer(createJobStore)
