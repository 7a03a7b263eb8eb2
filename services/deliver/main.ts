import { createWebhookSecrets } from '../accounts/webhook-secrets.ts'
import { createDeliveries } from '../jobs/deliveries.ts'
import { createDeliveryHistory } from '../jobs/delivery-history.ts'
import { createJobStore } from '../jobs/store.ts'
import { createMessageCodec } from '../jobs/message-codec.ts'
import { connectDeps, type Connections } from '../engine/connections.ts'
import { runStage } from '../engine/engine.ts'
import { createKeyRing } from '../crypto/key-ring.ts'
import { run } from '../platform/run.ts'
import { subscriptionsOf } from '../platform/topics.ts'
import { createArchive } from '../results/archive.ts'
import { closedKeys, connectJobKeys } from '../jobs/connect-keys.ts'
import { deliverConfig, type DeliverConfig } from './config.ts'
import { createSender } from './sender.ts'
import { createDeliverStage, startDelivery, type DeliveryDeps } from './stage.ts'

type Connected = Pick<Connections, 'state' | 'clickhouse' | 'recordMac' | 'clock'> &
  Pick<DeliveryDeps, 'keys' | 'log' | 'metrics'> & { readonly gate?: Connections['gate'] }

/** The dependencies of webhook attempts, from the configuration and open connections. */
export function deliveryDeps (config: DeliverConfig, connected: Connected): DeliveryDeps {
  const { state, clickhouse, recordMac, clock, log, metrics, keys, gate } = connected
  const store = createJobStore(state)
  const archive = createArchive(clickhouse, recordMac)
  return {
    deliveries: createDeliveries(state),
    history: createDeliveryHistory(clickhouse, recordMac),
    findJob: async (tenant, job) =>
      await store.read(tenant, job) ?? (await archive.find(tenant, job))?.job,
    keys,
    secrets: createWebhookSecrets({ redis: state, ring: createKeyRing(config), now: clock.now }),
    send: createSender({
      timeoutMs: config.WEBHOOK_TIMEOUT_MS,
      allowHttp: config.WEBHOOK_ALLOW_HTTP,
      allowLoopback: config.WEBHOOK_ALLOW_LOOPBACK,
      denied: config.WEBHOOK_DENIED_NETWORKS,
      dnsServers: config.WEBHOOK_DNS_SERVERS,
    }),
    clock,
    log,
    metrics,
    gate,
    waitsMs: config.WEBHOOK_WAITS_MS,
    slots: { quick: config.WEBHOOK_SLOTS, slow: config.WEBHOOK_SLOW_SLOTS },
    tenantSlots: config.WEBHOOK_TENANT_SLOTS,
    slowAfterMs: config.WEBHOOK_SLOW_AFTER_MS,
    leaseMs: config.WEBHOOK_LEASE_MS,
    pollMs: config.WEBHOOK_POLL_MS,
  }
}

if (import.meta.main) {
  await run('deliver', deliverConfig, async (config, context) => {
    const connected = await connectDeps(config, context, [
      'bus', 'codec', 'state', 'clickhouse', 'recordMac', 'clock', 'gate',
    ])
    const keys = connectJobKeys(connected, config, closedKeys(connected))
    const deps = deliveryDeps(config, { ...connected, keys })
    const delivery = startDelivery(deps)
    context.onStop(delivery.stop)
    const stage = createDeliverStage({
      ...deps, wake: delivery.wake, batch: config.DELIVER_BATCH_MESSAGES,
    })
    const messageCodec = createMessageCodec({ codec: connected.codec, keys })
    const subscriptions = subscriptionsOf('deliver')
    const running = await runStage(stage, { ...connected, messageCodec, subscriptions })
    return { ready: () => delivery.ready() && running.ready(), stop: running.stop }
  })
}
