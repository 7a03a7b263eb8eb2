import type { Metrics } from '../platform/metrics.ts'
import type { RecordCache } from './cache.ts'

type Finding = Pick<RecordCache, 'find'>

/** The cache, but that the rows that are looked up in it are counted, once for each look. */
export function countLookups (cache: Finding, metrics: Pick<Metrics, 'count'>): Finding {
  return {
    find: async (scope, tokens) => {
      const records = await cache.find(scope, tokens)
      const found = records.filter(record => record !== undefined).length
      const { service } = scope
      metrics.count('cache_lookups_total', { service, outcome: 'found' }, found)
      metrics.count('cache_lookups_total', { service, outcome: 'missing' }, records.length - found)
      return records
    },
  }
}
