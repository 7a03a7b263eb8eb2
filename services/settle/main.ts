import { connectParts } from '../lib/connect.ts'
import { runStage } from '../lib/engine.ts'
import { run } from '../lib/run.ts'
import { subscriptionsOf, type Subscription } from '../lib/topics.ts'
import { createJobWire } from '../records/job-wire.ts'
import { settleConfig } from './config.ts'
import { createOpenRows, GATHER_MS } from './open-rows.ts'
import { settleParts } from './parts.ts'
import { createSettleStage } from './stage.ts'

await run('settle', settleConfig, async (config, life) => {
  const parts = await connectParts(config, life, [
    'bus', 'codec', 'state', 'clickhouse', 'recordMac', 'clock', 'gate',
  ])
  const wire = createJobWire(parts, config)
  const { counted, mayEnd } = createOpenRows()
  const stage = createSettleStage({
    ...settleParts(config, { ...parts, wire }), onCounted: counted,
  })
  const subscriptions = subscriptionsOf('settle', { lanes: config.LANES })
  const gather = ({ lane }: Subscription) => lane === 'bulk'
    ? { bytes: config.GATHER_BYTES, withinMs: GATHER_MS, enough: mayEnd }
    : undefined
  return await runStage(stage, { ...parts, wire, subscriptions, gather })
})
