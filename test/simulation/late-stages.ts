import type { Redis } from 'ioredis'
import { type RecordCache, redisRecordCache } from '../../services/cache/cache.ts'
import { loadConfig } from '../../services/runtime/platform/config.ts'
import { storeBlock } from '../../services/jobs/results/repositories.ts'
import { createSettleStage } from '../../services/settle/stage.ts'
import { verifyConfig } from '../../services/verify/config.ts'
import { verifyDeps } from '../../services/verify/main.ts'
import { createVerifyStage, type VerifyDeps } from '../../services/verify/stage.ts'
import { STAGE_ENVIRONMENT } from '../support/stacks/stage-environment.ts'
import { redisLike } from './early-stages.ts'
import { jobsOf, noMetrics, oncePer, silent } from './stubs.ts'
import type { Shared } from './stages.ts'

/** In Redis' own time no lease ends within a run. */
const NEVER_MS = 3_600_000

const config = loadConfig(verifyConfig, {
  ...STAGE_ENVIRONMENT,
  PROVIDERS: '{}',
  RETRY_DELAY_MS: '1',
  CHECK_LEASE_MS: '5',
  CHECK_LEASE_POLL_MS: '1',
})
const partsOf = oncePer((state: Redis) => verifyDeps(config, {
  state, cache: state, clock: redisLike, log: silent, metrics: noMetrics,
}))
const leasedCacheOf = oncePer((cache: Redis) => simulatedLeases(redisRecordCache(cache)))

/** The stage `verify`; its provider is down at times, and its verdict follows the number. */
export function verifyStage ({ redis, cache, chaos, faults, observer }: Shared) {
  return observer.watch(createVerifyStage({
    ...verifyDepsOf(redis, cache),
    retryForMs: chaos.happens(0.3) ? 3 : 60_000,
    check: async rows => {
      await observer.onCall()
      if (chaos.happens(faults.providerDown)) return { kind: 'down' }
      const verdicts = new Map(rows.map(({ row, canonical }) => [row, verdictOf(canonical)]))
      return { kind: 'answered', verdicts }
    },
  }))
}

/** What `verify` is made of, but for its provider: short pauses, and leases of simulated time. */
function verifyDepsOf (redis: Redis, cache: Redis): VerifyDeps {
  return { ...partsOf(redis), cache: leasedCacheOf(cache) }
}

/**
 * The cache, but its leases end by the clock of the simulation: after so long each is released,
 * unless a record has taken its place or it is another job's by then.
 */
function simulatedLeases (cache: RecordCache): RecordCache {
  return {
    ...cache,
    claim: async (scope, tokens, claim) => {
      setTimeout(() => { cache.release(scope, tokens, claim.job).catch(() => {}) }, claim.leaseMs)
      return await cache.claim(scope, tokens, { ...claim, leaseMs: NEVER_MS })
    },
  }
}

const verdicts = ['valid', 'invalid', 'risky', 'unknown', 'valid'] as const

function verdictOf (canonical: string) {
  const status = verdicts[Number(canonical.slice(-1)) % verdicts.length] ?? 'valid'
  const reason = status === 'unknown' ? 'no_answer' : 'assigned_range'
  return { status, reason, confidence: 90, fields: { line_type: 'mobile' } } as never
}

/** The stage `settle` on stores in memory. */
export function settleStage ({ redis, stores, codec, messageCodec, chaos, observer }: Shared) {
  const { blocks, archive } = stores
  return createSettleStage({
    blocks,
    archive,
    saveSettled: async rows => {
      await blocks.insert(rows.flatMap(row => 'block' in row ? [row.block] : []))
      await archive.save(rows.flatMap(row => 'archived' in row ? [row.archived] : []))
    },
    store: jobsOf(redis),
    storeBlock: emission => storeBlock({ messageCodec, codec, blocks }, emission),
    clock: redisLike,
    onCounted: observer.onCounted,
    batch: 1 + chaos.below(16),
    batchBytes: 1 + chaos.below(20_000),
  })
}
