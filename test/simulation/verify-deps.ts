import type { Redis } from 'ioredis'
import { loadConfig } from '../../services/platform/config.ts'
import { createLog } from '../../services/platform/log.ts'
import { redisRecordCache } from '../../services/cache/redis-cache.ts'
import { verifyConfig } from '../../services/verify/config.ts'
import { verifyDeps } from '../../services/verify/main.ts'
import type { VerifyDeps } from '../../services/verify/stage.ts'
import { STAGE_ENVIRONMENT } from '../support/stage-environment.ts'
import { redisLike } from './early-stages.ts'
import { simulatedLeases } from './leases.ts'
import { noMetrics, oncePer } from './stubs.ts'

const log = createLog('simulation', { level: 'silent' })
const config = loadConfig(verifyConfig, {
  ...STAGE_ENVIRONMENT,
  PROVIDERS: '{}',
  RETRY_DELAY_MS: '1',
  CHECK_LEASE_MS: '5',
  CHECK_LEASE_POLL_MS: '1',
})
const partsOf = oncePer((state: Redis) => verifyDeps(config, {
  state, cache: state, clock: redisLike, log, metrics: noMetrics,
}))
const leasedCacheOf = oncePer((cache: Redis) => simulatedLeases(redisRecordCache(cache)))

/** What `verify` is made of, but for its provider: short pauses, and leases of simulated time. */
export function verifyDepsOf (redis: Redis, cache: Redis): VerifyDeps {
  return { ...partsOf(redis), cache: leasedCacheOf(cache) }
}
