import { createSubscriptions } from '../webhooks/endpoints.ts'
import { connectDeps } from '../runtime/engine/connections.ts'
import { runStage } from '../runtime/engine/engine.ts'
import { closedKeys, connectJobKeys } from '../jobs/connect-keys.ts'
import { createMessageCodec } from '../jobs/message-codec.ts'
import { run, type Running, type ServiceContext } from '../runtime/platform/run.ts'
import { subscriptionsOf } from '../runtime/platform/topics.ts'
import { deliverConfig, type DeliverConfig } from './config.ts'
import { deliveryDeps } from './deps.ts'
import { createDeliverStage, startDelivery } from './stage.ts'

/** Wires the stage and starts it. */
async function startDeliver (
  config: DeliverConfig, context: ServiceContext
): Promise<Running> {
  const connected = await connectDeps(config, context, [
    'bus', 'codec', 'state', 'clickhouse', 'recordMac', 'clock', 'gate', 'attempts',
  ])
  const keys = connectJobKeys(
    connected, config, { part: 'webhooks', findClosed: closedKeys(connected) })
  const deps = deliveryDeps(config, { ...connected, keys })
  const delivery = startDelivery(deps)
  context.onStop(delivery.stop)
  const stage = createDeliverStage({
    ...deps,
    subscriptions: createSubscriptions(connected.state),
    wake: delivery.wake,
    batch: config.DELIVER_BATCH_MESSAGES,
  })
  const messageCodec = createMessageCodec({ codec: connected.codec, keys })
  const subscriptions = subscriptionsOf('deliver')
  const running = await runStage(stage, { ...connected, messageCodec, subscriptions })
  return { ready: () => delivery.ready() && running.ready(), stop: running.stop }
}

export const deliverService = { config: deliverConfig, start: startDeliver }

if (import.meta.main) await run('deliver', deliverConfig, startDeliver)
