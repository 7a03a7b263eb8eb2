import type { Redis } from 'ioredis'
import { systemClock as clock } from '../../services/platform/clock.ts'
import { loadConfig } from '../../services/platform/config.ts'
import { createLog } from '../../services/platform/log.ts'
import { lookupConfig } from '../../services/lookup/config.ts'
import { lookupDeps } from '../../services/lookup/parts.ts'
import { createLookupStage } from '../../services/lookup/stage.ts'
import { createNormalizeStage } from '../../services/normalize/stage.ts'
import { createTokenizer } from '../../services/normalize/token.ts'
import { redisRecordCache } from '../../services/cache/redis-cache.ts'
import { jobsOf, oncePer, noMetrics } from './spared.ts'
import type { Shared } from './stages.ts'
import { MESSAGE_KEY_ENV } from '../support/signed.ts'

const tokenize = createTokenizer(new Map([['1', Buffer.alloc(32, 5)]]))
const log = createLog('simulation', { level: 'silent' })

/** Addresses nobody connects to: the simulation brings its own connections. */
export const nowhere = {
  ...MESSAGE_KEY_ENV,
  KAFKA_BROKERS: 'nowhere:1',
  SCHEMA_REGISTRY_URL: 'http://nowhere',
  REDIS_STATE_URL: 'redis://nowhere',
  REDIS_CACHE_URL: 'redis://nowhere',
  CLICKHOUSE_URL: 'http://nowhere',
  KEY_RING: JSON.stringify({ 1: Buffer.alloc(32).toString('base64') }),
  KEY_ACTIVE: '1',
}

/** The stage `normalize`, a few chunks at a time. */
export function normalizeStage ({ redis, chaos }: Shared) {
  return createNormalizeStage({
    store: jobsOf(redis), clock, tokenize, batch: 1 + chaos.below(4),
  })
}

const partsOf = oncePer((state: Redis) => lookupDeps(
  loadConfig(lookupConfig, { ...nowhere, MAX_ACTIVE_JOBS: '4' }),
  { state, cache: state, clock: redisLike, log, metrics: noMetrics }))
const cacheOf = oncePer((cache: Redis) => redisRecordCache(cache))

/** The stage `lookup`, with parts of few rows, so that jobs have many. */
export function lookupStage ({ redis, cache, chaos, time }: Shared) {
  const parts = partsOf(redis)
  const smallPart = 1 + chaos.below(12)
  return createLookupStage({
    ...parts,
    cache: cacheOf(cache),
    partRows: (lane, service) => lane === 'small' ? smallPart : parts.partRows(lane, service),
    batch: 1 + chaos.below(8),
    clock: { now: () => redisLike.now() + time.aheadMs },
    // Looks come only when nothing is under way: one that finds nothing new is enough.
    lostAfterLooks: 1,
  })
}

/** The clock of the simulation, which its scripts read as well. */
export const redisLike = { ...clock, stop: () => {} }
