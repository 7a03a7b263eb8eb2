import type { Redis } from 'ioredis'
import { systemClock as clock } from '../../services/platform/clock.ts'
import { loadConfig } from '../../services/platform/config.ts'
import { createLog } from '../../services/platform/log.ts'
import { lookupConfig } from '../../services/lookup/config.ts'
import { lookupDeps } from '../../services/lookup/deps.ts'
import { createLookupStage } from '../../services/lookup/stage.ts'
import { createNormalizeStage } from '../../services/normalize/stage.ts'
import { createTokenizer } from '../../services/cache/tokenizer.ts'
import { redisRecordCache } from '../../services/cache/redis-cache.ts'
import { STAGE_ENVIRONMENT } from '../support/stage-environment.ts'
import { jobsOf, oncePer, noMetrics } from './stubs.ts'
import type { Shared } from './stages.ts'

const tokenize = createTokenizer(new Map([['1', Buffer.alloc(32, 5)]]))
const log = createLog('simulation', { level: 'silent' })

/** The stage `normalize`, a few chunks at a time. */
export function normalizeStage ({ redis, chaos }: Shared) {
  return createNormalizeStage({
    store: jobsOf(redis), clock, tokenize, batch: 1 + chaos.below(4),
  })
}

const depsOf = oncePer((state: Redis) => lookupDeps(
  loadConfig(lookupConfig, { ...STAGE_ENVIRONMENT, MAX_ACTIVE_JOBS: '4' }),
  { state, cache: state, clock: redisLike, log, metrics: noMetrics }))
const cacheOf = oncePer((cache: Redis) => redisRecordCache(cache))

/** The stage `lookup`, with parts of few rows, so that jobs have many. */
export function lookupStage ({ redis, cache, chaos, time }: Shared) {
  const deps = depsOf(redis)
  const smallPart = 1 + chaos.below(12)
  return createLookupStage({
    ...deps,
    cache: cacheOf(cache),
    batchRows: (lane, service) => lane === 'small' ? smallPart : deps.batchRows(lane, service),
    batch: 1 + chaos.below(8),
    clock: { now: () => redisLike.now() + time.aheadMs },
    // Polls come only when nothing is under way: one that finds nothing new is enough.
    lostAfterIdlePolls: 1,
  })
}

/** The clock of the simulation, which its scripts read as well. */
export const redisLike = { ...clock, stop: () => {} }
