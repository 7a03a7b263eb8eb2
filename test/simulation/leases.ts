import type { RecordCache } from '../../services/cache/cache.ts'

/** In Redis' own time no lease ends within a run. */
const NEVER_MS = 3_600_000

/**
 * The cache, but its leases end by the clock of the simulation: after so long each is released,
 * unless a record has taken its place or it is another job's by then.
 */
export function simulatedLeases (cache: RecordCache): RecordCache {
  return {
    ...cache,
    claim: async (scope, tokens, claim) => {
      setTimeout(() => { cache.release(scope, tokens, claim.job).catch(() => {}) }, claim.leaseMs)
      return await cache.claim(scope, tokens, { ...claim, leaseMs: NEVER_MS })
    },
  }
}
