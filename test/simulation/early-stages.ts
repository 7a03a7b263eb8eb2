import type { Redis } from 'ioredis'
import { partsOf } from '../../services/accounts/tenant.ts'
import { systemClock as clock } from '../../services/runtime/platform/clock.ts'
import { loadConfig } from '../../services/runtime/platform/config.ts'
import { batchRowsOf, lookupConfig } from '../../services/lookup/config.ts'
import { connectPolicies } from '../../services/lookup/decide.ts'
import { ChunkLoader } from '../../services/lookup/read.ts'
import { LookupStage } from '../../services/lookup/stage.ts'
import { readPrices, unitPriceMicros } from '../../services/money/prices.ts'
import { createNormalizeStage } from '../../services/normalize/stage.ts'
import { createTokenizer } from '../../services/cache/tokens.ts'
import { redisRecordCache } from '../../services/cache/cache.ts'
import { STAGE_ENVIRONMENT } from '../support/stacks/stage-environment.ts'
import { jobsOf, oncePer } from './stubs.ts'
import type { Shared } from './stages.ts'

const tokenize = createTokenizer(new Map([['1', Buffer.alloc(32, 5)]]))

/** The stage `normalize`, a few chunks at a time. */
export function normalizeStage ({ redis, chaos }: Shared) {
  return createNormalizeStage({
    store: jobsOf(redis), clock, tokenize, batch: 1 + chaos.below(4),
  })
}

const bulkRowsOf = batchRowsOf(loadConfig(lookupConfig, STAGE_ENVIRONMENT))
const prices = readPrices('')
const policiesOf = oncePer((state: Redis) => connectPolicies(state, 4))
const cacheOf = oncePer((cache: Redis) => redisRecordCache(cache))

/** The stage `lookup`, with parts of few rows, so that jobs have many. */
export function lookupStage ({ redis, cache, chaos, time }: Shared) {
  const smallPart = 1 + chaos.below(12)
  return new LookupStage({
    store: jobsOf(redis),
    loader: new ChunkLoader(cacheOf(cache)),
    policy: policiesOf(redis),
    unitPriceMicros: (tenant, service) => unitPriceMicros(prices, service, partsOf(tenant).mode),
    batchRows: (lane, service) => lane === 'small' ? smallPart : bulkRowsOf(lane, service),
    batch: 1 + chaos.below(8),
    clock: { now: () => redisLike.now() + time.aheadMs },
    // Polls come only when nothing is under way: one that finds nothing new is enough.
    lostAfterIdlePolls: 1,
  })
}

/** The clock of the simulation, which its scripts read as well. */
export const redisLike = { ...clock, stop: () => {} }
