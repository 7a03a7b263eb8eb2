import type { Static } from 'typebox'
import { createOrganizations } from '../accounts/organizations.ts'
import { partsOf } from '../accounts/tenant.ts'
import { createJobStore } from '../jobs/store.ts'
import type { Connections } from '../engine/connections.ts'
import type { ServiceContext } from '../platform/run.ts'
import { readPrices, unitPriceMicros } from '../money/prices.ts'
import { redisRecordCache } from '../cache/redis-cache.ts'
import type { lookupConfig } from './config.ts'
import type { BatchRows } from './read-chunks.ts'
import type { LookupDeps } from './stage.ts'

type Connected = Pick<Connections, 'state' | 'cache' | 'clock'> &
  Pick<ServiceContext, 'log' | 'metrics'>

/** The dependencies of the stage, from its configuration and open connections. */
export function lookupDeps (config: Static<typeof lookupConfig>, connected: Connected):
LookupDeps {
  const { state, clock, log, metrics } = connected
  const prices = readPrices(config.PRICES)
  const onFault = (error: unknown) =>
    log.warn({ err: error }, 'cache Redis unavailable, rows count as not cached')
  return {
    store: createJobStore(state),
    cache: redisRecordCache(connected.cache, { onFault, metrics }),
    clock,
    unitPriceMicros: (tenant, service) => unitPriceMicros(prices, service, partsOf(tenant).mode),
    policy: policiesOf(state, config.MAX_ACTIVE_JOBS),
    batchRows: batchRowsOf(config),
    batch: config.LOOKUP_BATCH_MESSAGES,
    onUndecidable: ({ tenant, job }, error) => log.error({ err: error, tenant, job },
      'job cannot be decided: refusing it, or ending its rows as unknown if it was accepted'),
  }
}

const DAY_MS = 86_400_000
const EARLY_EVENTS = ['job.accepted', 'job.progress'] as const

function policiesOf (state: Connected['state'], maxJobs: number): LookupDeps['policy'] {
  const { policy, subscriptions, isErased } = createOrganizations(state)
  return async tenant => {
    const { freshnessDays, activeJobs = maxJobs, lowBalanceMicros } = await policy(tenant)
    const subscribed = (await subscriptions(tenant)).flatMap(({ events }) => events)
    const events = EARLY_EVENTS.filter(type => subscribed.includes(type))
    return {
      freshnessMs: freshnessDays * DAY_MS,
      maxActiveJobs: activeJobs,
      ...await isErased(partsOf(tenant).orgId) && { isErased: true },
      ...events.length > 0 && { events },
      ...lowBalanceMicros !== undefined && { lowBalanceMicros },
    }
  }
}

function batchRowsOf (config: Static<typeof lookupConfig>): BatchRows {
  const quick = new Set(config.QUICK_SERVICES)
  return (lane, service) => {
    if (lane === 'small') return config.VERIFY_BATCH_ROWS_SMALL
    return quick.has(service) ? config.VERIFY_BATCH_ROWS_QUICK : config.VERIFY_BATCH_ROWS_BULK
  }
}
