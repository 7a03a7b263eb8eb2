import { createWire } from '../jobs/wire.ts'
import { connectParts } from '../lib/connect.ts'
import { runStage } from '../lib/engine.ts'
import { run } from '../lib/run.ts'
import { subscriptionsOf } from '../lib/topics.ts'
import { closedKeys, connectJobKeys } from '../records/job-wire.ts'
import { handbackConfig } from './config.ts'
import { handbackParts } from './parts.ts'
import { createHandbackStage } from './stage.ts'

await run('handback', handbackConfig, async (config, life) => {
  const parts = await connectParts(config, life, [
    'bus', 'codec', 'state', 'clickhouse', 'recordMac', 'gate',
  ])
  const keys = connectJobKeys(parts, config, closedKeys(parts))
  const stage = createHandbackStage(handbackParts(config, { ...parts, keys }))
  const wire = createWire({ codec: parts.codec, keys })
  return await runStage(stage, { ...parts, wire, subscriptions: subscriptionsOf('handback') })
})
