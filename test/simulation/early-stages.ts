import { createJobStore } from '../../services/jobs/store.ts'
import { systemClock as clock } from '../../services/lib/clock.ts'
import { loadConfig } from '../../services/lib/config.ts'
import { createLog } from '../../services/lib/log.ts'
import { lookupConfig } from '../../services/lookup/config.ts'
import { lookupParts } from '../../services/lookup/parts.ts'
import { createLookupStage } from '../../services/lookup/stage.ts'
import { createNormalizeStage } from '../../services/normalize/stage.ts'
import { createTokenizer } from '../../services/normalize/token.ts'
import type { Shared } from './stages.ts'

const tokenize = createTokenizer(new Map([['1', Buffer.alloc(32, 5)]]))
const log = createLog('simulation', { level: 'silent' })

/** Addresses nobody connects to: the simulation brings its own connections. */
export const nowhere = {
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
    store: createJobStore(redis), clock, tokenize, batch: 1 + chaos.below(4),
  })
}

/** The stage `lookup`, with parts of few rows, so that jobs have many. */
export function lookupStage ({ redis, cache, chaos, time }: Shared) {
  const config = loadConfig(lookupConfig, {
    ...nowhere,
    PART_ROWS_SMALL: String(1 + chaos.below(12)),
    BATCH_MESSAGES: String(1 + chaos.below(8)),
    MAX_ACTIVE_JOBS: '4',
  })
  const ahead = { now: () => redisLike.now() + time.aheadMs, stop: () => {} }
  const parts = lookupParts(config, { state: redis, cache, clock: ahead, log })
  // Looks come only when nothing is under way: one that finds nothing new is enough.
  return createLookupStage({ ...parts, lostAfterLooks: 1 })
}

/** The simulation runs beside its Redis, whose clock is that of this machine. */
export const redisLike = { ...clock, stop: () => {} }
