import { connectParts } from '../lib/connect.ts'
import { runStage } from '../lib/engine.ts'
import { run } from '../lib/run.ts'
import { subscriptionsOf, type Subscription } from '../lib/topics.ts'
import { createJobWire } from '../records/job-wire.ts'
import { createStores } from '../records/stores.ts'
import { settleConfig } from './config.ts'
import { createRemainingRows, createSettleStage, MAX_GATHER_MS } from './stage.ts'

await run('settle', settleConfig, async (config, context) => {
  const connected = await connectParts(config, context, [
    'bus', 'codec', 'state', 'clickhouse', 'recordMac', 'clock', 'gate',
  ])
  const wire = createJobWire(connected, config)
  const { update, mayEndJob } = createRemainingRows()
  const stage = createSettleStage({
    ...createStores({ ...connected, wire }),
    clock: connected.clock,
    onCounted: update,
    batch: config.BATCH_MESSAGES,
  })
  const subscriptions = subscriptionsOf('settle', { lanes: config.LANES })
  const gather = ({ lane }: Subscription) => lane === 'bulk'
    ? { bytes: config.GATHER_BYTES, withinMs: MAX_GATHER_MS, enough: mayEndJob }
    : undefined
  return await runStage(stage, { ...connected, wire, subscriptions, gather })
})
