import { createWire } from '../jobs/wire.ts'
import { connectParts } from '../lib/connect.ts'
import { runStage } from '../lib/engine.ts'
import { run } from '../lib/run.ts'
import { subscriptionsOf } from '../lib/topics.ts'
import { closedKeys, connectJobKeys } from '../records/job-wire.ts'
import { deliverConfig } from './config.ts'
import { sendingParts } from './parts.ts'
import { startSending } from './sending.ts'
import { createDeliverStage } from './stage.ts'

await run('deliver', deliverConfig, async (config, life) => {
  const parts = await connectParts(config, life, [
    'bus', 'codec', 'state', 'clickhouse', 'recordMac', 'clock', 'gate',
  ])
  const keys = connectJobKeys(parts, config, closedKeys(parts))
  const sending = { ...sendingParts(config, { ...parts, keys }), gate: parts.gate }
  const { wake, ready, stop } = startSending(sending)
  life.onStop(stop)
  const stage = createDeliverStage({ ...sending, wake, batch: config.BATCH_MESSAGES })
  const wire = createWire({ codec: parts.codec, keys })
  const subscriptions = subscriptionsOf('deliver')
  const running = await runStage(stage, { ...parts, wire, subscriptions })
  return { ready: () => ready() && running.ready(), stop: running.stop }
})
