import { connectParts } from '../lib/connect.ts'
import { runStage } from '../lib/engine.ts'
import { watchRedis } from '../lib/redis-meters.ts'
import { run } from '../lib/run.ts'
import { subscriptionsOf } from '../lib/topics.ts'
import { createJobWire } from '../records/job-wire.ts'
import { lookupConfig } from './config.ts'
import { lookupParts } from './parts.ts'
import { createLookupStage } from './stage.ts'

await run('lookup', lookupConfig, async (config, life) => {
  const parts = await connectParts(config, life, [
    'bus', 'codec', 'state', 'cache', 'clock', 'gate',
  ])
  watchRedis({ store: 'cache', redis: parts.cache, ...parts })
  const wire = createJobWire(parts, config)
  const subscriptions = subscriptionsOf('lookup', { lanes: config.LANES })
  const stageOf = () => createLookupStage(lookupParts(config, parts))
  return await runStage<'lookup'>(stageOf, { ...parts, wire, subscriptions })
})
