import type { Static } from 'typebox'
import { createWebhookSecrets } from '../accounts/webhook-secrets.ts'
import { createDeliveries } from '../jobs/deliveries.ts'
import { createDeliveryHistory } from '../jobs/delivery-history.ts'
import { createJobStore } from '../jobs/store.ts'
import type { Parts } from '../lib/connect.ts'
import { createKeyRing } from '../lib/key-ring.ts'
import { createArchive } from '../records/archive.ts'
import { createResolve } from './address.ts'
import { createSender } from './attempt.ts'
import type { deliverConfig } from './config.ts'
import type { SendingParts } from './sending.ts'

type Config = Static<typeof deliverConfig>
type Connected = Pick<Parts, 'state' | 'clickhouse' | 'recordMac' | 'clock'> &
  Pick<SendingParts, 'keys' | 'log' | 'metrics'>

/** What attempts are made with, on what the process is connected to. */
export function sendingParts (config: Config, connected: Connected): SendingParts {
  const { state, clickhouse, recordMac, clock, log, metrics, keys } = connected
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
      resolve: createResolve(config.WEBHOOK_DNS_SERVERS),
    }),
    clock,
    log,
    metrics,
    waitsMs: config.WEBHOOK_WAITS_MS,
    slots: { quick: config.WEBHOOK_SLOTS, slow: config.WEBHOOK_SLOW_SLOTS },
    tenantSlots: config.WEBHOOK_TENANT_SLOTS,
    slowAfterMs: config.WEBHOOK_SLOW_AFTER_MS,
    leaseMs: config.WEBHOOK_LEASE_MS,
    pollMs: config.WEBHOOK_POLL_MS,
  }
}
