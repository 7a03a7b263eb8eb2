import { connectOrganizationKeys } from '../accounts/connect-organization-keys.ts'
import { connectJobKeys } from '../jobs/job-keys.ts'
import { createMessageCodec } from '../jobs/message-codec.ts'
import { createArchive } from '../jobs/results/archive.ts'
import { createJobStore } from '../jobs/store.ts'
import { connectDeps, type Connections } from '../runtime/engine/connections.ts'
import { runStage } from '../runtime/engine/engine.ts'
import { run, type Running, type ServiceContext } from '../runtime/platform/run.ts'
import { subscriptionsOf } from '../runtime/platform/topics.ts'
import { createDeliveries, createDeliveryHistory } from '../webhooks/deliveries.ts'
import { createSubscriptions, createWebhookEndpoints } from '../webhooks/endpoints.ts'
import { createWebhookSecrets, createWebhookSigningKeys } from '../webhooks/secrets.ts'
import { createSender } from './sender.ts'
import { Workers, type WorkersDeps } from './workers.ts'
import { createHostRate } from './attempt.ts'
import { deliverConfig, type DeliverConfig } from './config.ts'
import { createDeliverStage } from './stage.ts'
import { closedKeys } from '../jobs/wrapped-keys.ts'

/** Wires the stage and the workers beside it, and starts both. */
async function startDeliver (
  config: DeliverConfig, context: ServiceContext
): Promise<Running> {
  const connected = await connectDeps(config, context, [
    'bus', 'codec', 'state', 'clickhouse', 'recordMac', 'clock', 'gate', 'attempts',
  ])
  const keys = connectJobKeys(
    connected, config, { part: 'webhooks', findClosed: closedKeys(connected) })
  const deps = workersDeps(config, { ...connected, keys })
  const workers = new Workers(deps)
  context.onStop(() => workers.stop())
  const stage = createDeliverStage({
    ...deps,
    subscriptions: createSubscriptions(connected.state),
    wake: () => workers.wake(),
    batch: config.DELIVER_BATCH_MESSAGES,
  })
  const messageCodec = createMessageCodec({ codec: connected.codec, keys })
  const subscriptions = subscriptionsOf('deliver')
  const running = await runStage(stage, { ...connected, messageCodec, subscriptions })
  return { ready: () => workers.isReady && running.ready(), stop: running.stop }
}

type Connected = Pick<Connections, 'state' | 'clickhouse' | 'recordMac' | 'clock'> &
  Pick<WorkersDeps, 'keys' | 'log' | 'metrics' | 'gate'>

/** The dependencies of the workers, from the configuration and open connections. */
function workersDeps (config: DeliverConfig, connected: Connected): WorkersDeps {
  const { state, clickhouse, recordMac, clock, log, metrics, keys, gate } = connected
  const store = createJobStore(state)
  const archive = createArchive(clickhouse, recordMac)
  const secured = {
    redis: state,
    keys: connectOrganizationKeys('webhooks', config, { state, metrics }),
    now: clock.now,
  }
  return {
    deliveries: createDeliveries(state),
    history: createDeliveryHistory(clickhouse, recordMac),
    findJob: async (tenant, job) =>
      await store.read(tenant, job) ?? (await archive.find(tenant, job))?.job,
    keys,
    secrets: createWebhookSecrets(secured),
    signingKeys: createWebhookSigningKeys(secured),
    endpoints: createWebhookEndpoints(secured),
    takeToken: createHostRate(config.WEBHOOK_HOST_RATE),
    send: createSender({
      timeoutMs: config.WEBHOOK_TIMEOUT_MS,
      proxy: config.WEBHOOK_PROXY,
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

export const deliverService = { config: deliverConfig, start: startDeliver }

if (import.meta.main) await run('deliver', deliverConfig, startDeliver)
