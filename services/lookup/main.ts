import { connectDeps } from '../engine/connections.ts'
import { runStage } from '../engine/engine.ts'
import { watchRedis } from '../platform/redis-meters.ts'
import { run, type Running, type ServiceContext } from '../platform/run.ts'
import { subscriptionsOf } from '../platform/topics.ts'
import { createJobMessageCodec } from '../jobs/connect-keys.ts'
import { lookupConfig, type LookupConfig } from './config.ts'
import { lookupDeps } from './deps.ts'
import { createLookupStage } from './stage.ts'

/** Wires the stage and starts it. */
async function startLookup (
  config: LookupConfig, context: ServiceContext
): Promise<Running> {
  const deps = await connectDeps(config, context, [
    'bus', 'codec', 'state', 'cache', 'clock', 'gate', 'attempts',
  ])
  watchRedis({ store: 'cache', redis: deps.cache, ...deps })
  const messageCodec = createJobMessageCodec(deps, config)
  const subscriptions = subscriptionsOf('lookup', { lanes: config.LANES })
  const stageOf = () => createLookupStage(lookupDeps(config, deps))
  return await runStage<'lookup'>(stageOf, { ...deps, messageCodec, subscriptions })
}

export const lookupService = { config: lookupConfig, start: startLookup }

if (import.meta.main) await run('lookup', lookupConfig, startLookup)
