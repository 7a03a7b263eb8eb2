import type { Static } from 'typebox'
import { createJobStore } from '../jobs/store.ts'
import type { Parts } from '../lib/connect.ts'
import { sleep } from '../lib/retry.ts'
import type { Life } from '../lib/run.ts'
import { redisRecordCache } from '../records/redis-cache.ts'
import type { verifyConfig } from './config.ts'
import { factoriesOf } from './factories.ts'
import type { PolicyLimits } from './policy.ts'
import { createChecker } from './providers.ts'
import type { VerifyParts } from './stage.ts'

type Connected = Pick<Parts, 'state' | 'cache' | 'clock'> & Pick<Life, 'log' | 'metrics'>

/** What the stage is made of, from its configuration and open connections. */
export function verifyParts (config: Static<typeof verifyConfig>, connected: Connected):
VerifyParts {
  const { state, cache, clock, log, metrics } = connected
  const onFault = (error: unknown) => log.warn({ err: error }, 'the cache is not to be had')
  return {
    store: createJobStore(state),
    cache: redisRecordCache(cache, { onFault }),
    check: createChecker({
      lists: config.PROVIDERS,
      secondLists: config.SECOND_OPINIONS,
      limits: limitsOf(config),
      metrics,
      factories: factoriesOf(config),
    }),
    clock,
    sleep,
    metrics,
    leaseMs: config.LEASE_MS,
    leasePollMs: config.LEASE_POLL_MS,
    concurrencyOf: service => config.PART_CONCURRENCY_OF[service] ?? config.PART_CONCURRENCY,
    batch: config.BATCH_MESSAGES,
    laterAfterMs: config.LATER_AFTER_MS,
    giveUpAfterMs: config.GIVE_UP_AFTER_MS,
  }
}

function limitsOf (config: Static<typeof verifyConfig>): PolicyLimits {
  const calls = config.PROVIDER_CALLS_PER_SECOND
  return {
    timeoutMs: config.PROVIDER_TIMEOUT_MS,
    attemptTimeoutMs: config.PROVIDER_ATTEMPT_TIMEOUT_MS,
    concurrency: config.PROVIDER_CONCURRENCY,
    retries: config.PROVIDER_RETRIES,
    breaker: {
      failingShare: config.PROVIDER_OPEN_PERCENT / 100,
      sampledMs: config.PROVIDER_SAMPLED_MS,
      openMs: config.PROVIDER_OPEN_MS,
    },
    ...(calls === 0 ? {} : { rate: { calls, perMs: 1_000 } }),
  }
}
