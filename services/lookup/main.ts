import { connectDeps } from '../engine/deps.ts'
import { runStage } from '../engine/engine.ts'
import { watchRedis } from '../platform/redis-meters.ts'
import { run } from '../platform/run.ts'
import { subscriptionsOf } from '../platform/topics.ts'
import { createJobWire } from '../jobs/job-wire.ts'
import { lookupConfig } from './config.ts'
import { lookupDeps } from './parts.ts'
import { createLookupStage } from './stage.ts'

await run('lookup', lookupConfig, async (config, context) => {
  const parts = await connectDeps(config, context, [
    'bus', 'codec', 'state', 'cache', 'clock', 'gate',
  ])
  watchRedis({ store: 'cache', redis: parts.cache, ...parts })
  const wire = createJobWire(parts, config)
  const subscriptions = subscriptionsOf('lookup', { lanes: config.LANES })
  const stageOf = () => createLookupStage(lookupDeps(config, parts))
  return await runStage<'lookup'>(stageOf, { ...parts, wire, subscriptions })
})
