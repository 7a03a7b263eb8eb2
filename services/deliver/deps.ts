import { connectOrganizationKeys } from '../accounts/connect-organization-keys.ts'
import { createWebhookEndpoints } from '../webhooks/endpoints.ts'
import { createWebhookSecrets, createWebhookSigningKeys } from '../webhooks/secrets.ts'
import type { Connections } from '../runtime/engine/connections.ts'
import { createDeliveries } from '../webhooks/deliveries.ts'
import { createDeliveryHistory } from '../webhooks/delivery-history.ts'
import { createJobStore } from '../jobs/store.ts'
import { createArchive } from '../jobs/results/archive.ts'
import type { DeliverConfig } from './config.ts'
import { createHostRate } from './host-rate.ts'
import { createSender } from '../webhooks/sender.ts'
import type { DeliveryDeps } from './stage.ts'

type Connected = Pick<Connections, 'state' | 'clickhouse' | 'recordMac' | 'clock'> &
  Pick<DeliveryDeps, 'keys' | 'log' | 'metrics'> & { readonly gate?: Connections['gate'] }

/** The dependencies of webhook attempts, from the configuration and open connections. */
export function deliveryDeps (config: DeliverConfig, connected: Connected): DeliveryDeps {
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
