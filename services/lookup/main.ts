import { connectOrganizationKeys } from '../accounts/connect-organization-keys.ts'
import { ContactLists } from '../accounts/contact-lists.ts'
import { isSampleTenant, partsOf } from '../accounts/tenant.ts'
import { redisRecordCache } from '../cache/cache.ts'
import { connectDeps } from '../runtime/engine/connections.ts'
import { runStage } from '../runtime/engine/engine.ts'
import { createJobMessageCodec } from '../jobs/message-codec.ts'
import { optionsPriceMicros } from '../jobs/options.ts'
import { createJobStore } from '../jobs/store.ts'
import { readPrices, unitPriceMicros } from '../money/prices.ts'
import { watchRedis } from '../runtime/platform/redis.ts'
import { run, type Running, type ServiceContext } from '../runtime/platform/run.ts'
import { subscriptionsOf } from '../runtime/platform/topics.ts'
import { batchRowsOf, lookupConfig, type LookupConfig } from './config.ts'
import { connectPolicies } from './decide.ts'
import { ChunkLoader } from './read.ts'
import { LookupStage } from './stage.ts'

/** Wires the stage and starts it. */
async function startLookup (
  config: LookupConfig, context: ServiceContext
): Promise<Running> {
  const connected = await connectDeps(config, context, [
    'bus', 'codec', 'state', 'cache', 'clock', 'gate', 'attempts',
  ])
  const { state, cache, clock, log, metrics } = connected
  watchRedis({ ...connected, store: 'cache', redis: cache })
  const prices = readPrices(config.PRICES)
  const onFault = (error: unknown) =>
    log.warn({ err: error }, 'cache Redis unavailable, rows count as not cached')
  const lists = new ContactLists({
    redis: state, keys: connectOrganizationKeys('results', config, { state, metrics }),
  })
  const stage = () => new LookupStage({
    store: createJobStore(state),
    loader: new ChunkLoader(redisRecordCache(cache, { onFault, metrics })),
    clock,
    lists,
    policy: connectPolicies(state, config.MAX_ACTIVE_JOBS),
    unitPriceMicros: (tenant, service, options) => {
      if (isSampleTenant(tenant)) return 0
      const { mode } = partsOf(tenant)
      return unitPriceMicros(prices, service, mode) +
        optionsPriceMicros(config.OPTION_PRICES, options, mode)
    },
    batchRows: batchRowsOf(config),
    batch: config.LOOKUP_BATCH_MESSAGES,
    onUndecidable: ({ tenant, job }, error) => log.error({ err: error, tenant, job },
      'job cannot be decided: refusing it, or ending its rows as unknown if it was accepted'),
  })
  return await runStage<'lookup'>(stage, {
    ...connected,
    messageCodec: createJobMessageCodec(connected, config),
    subscriptions: subscriptionsOf('lookup', { lanes: config.LANES }),
  })
}

export const lookupService = { config: lookupConfig, start: startLookup }

if (import.meta.main) await run('lookup', lookupConfig, startLookup)
