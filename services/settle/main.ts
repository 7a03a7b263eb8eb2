import { createJobKeys } from '../jobs/job-keys.ts'
import { createWire } from '../jobs/wire.ts'
import { connectParts } from '../lib/connect.ts'
import { runStage } from '../lib/engine.ts'
import { createKeyRing } from '../lib/key-ring.ts'
import { run } from '../lib/run.ts'
import { subscriptionsOf } from '../lib/topics.ts'
import { settleConfig } from './config.ts'
import { settleParts } from './parts.ts'
import { createSettleStage } from './stage.ts'

await run('settle', settleConfig, async (config, life) => {
  const parts = await connectParts(config, life, ['bus', 'codec', 'state', 'clickhouse', 'clock'])
  const keys = createJobKeys({ redis: parts.state, ring: createKeyRing(config) })
  const wire = createWire({ codec: parts.codec, keys })
  const stage = createSettleStage(settleParts(config, { ...parts, wire }))
  const subscriptions = subscriptionsOf('settle', { lanes: config.LANES })
  return await runStage(stage, { ...parts, wire, subscriptions })
})
