import type { EventType } from '../../schemas/api/webhooks.ts'
import type { JobEvent, Settled } from '../../schemas/types.ts'
import { connectOrganizationKeys } from '../accounts/connect-organization-keys.ts'
import { createOrganizations, type Organizations } from '../accounts/organizations.ts'
import { connectJobKeys, type JobKeys } from '../jobs/job-keys.ts'
import { createMessageCodec, openHeader } from '../jobs/message-codec.ts'
import { createArchive, findStoredJob } from '../jobs/results/archive.ts'
import { createJobStore } from '../jobs/store.ts'
import { closedKeys } from '../jobs/wrapped-keys.ts'
import { connectDeps, type Connections } from '../runtime/engine/connections.ts'
import { runStage } from '../runtime/engine/engine.ts'
import type { Incoming, Stage } from '../runtime/engine/stage.ts'
import { InconsistencyError } from '../runtime/platform/errors.ts'
import { failpoint } from '../runtime/platform/failpoint.ts'
import { run, type Running, type ServiceContext } from '../runtime/platform/run.ts'
import { listSubscriptions } from '../runtime/platform/topics.ts'
import {
  createDeliveries, createDeliveryHistory, type Deliveries, type WebhookDelivery,
} from '../webhooks/deliveries.ts'
import { createWebhookEndpoints, findReceivers } from '../webhooks/endpoints.ts'
import { findEventType } from '../webhooks/event.ts'
import { createWebhookSecrets, createWebhookSigningKeys } from '../webhooks/secrets.ts'
import { createHostRate } from './attempt.ts'
import { deliverConfig, type DeliverConfig } from './config.ts'
import { createSender } from './sender.ts'
import { Workers, type WorkersDeps } from './workers.ts'

type DeliverDeps = {
  readonly deliveries: Pick<Deliveries, 'put'>
  readonly keys: JobKeys
  /** The subscriptions of the webhook endpoints of a tenant. */
  readonly subscriptions: Organizations['subscriptions']
  /** Starts the next poll of the workers now. */
  readonly wake: () => void
  /** Maximum number of messages in one call of `decide`. */
  readonly batch: number
}

/**
 * Queues webhook events, one delivery for each destination: the webhook address of an ended job,
 * and the webhook endpoints of its organization that are subscribed to the event. A delivery that
 * is already queued stays unchanged, so a message may arrive any number of times.
 */
export function createDeliverStage (deps: DeliverDeps): Stage<'deliver'> {
  return {
    name: 'deliver',
    batch: deps.batch,
    decide: async messages => {
      const deliveries = (await Promise.all(
        messages.map(message => planDeliveries(deps, message)))).flat()
      await Promise.all(deliveries.map(delivery => deps.deliveries.put(delivery)))
      failpoint('deliver.put')
      if (deliveries.length > 0) deps.wake()
      return [{ completes: messages, emits: [] }]
    },
    resolveDead: async () => [],
    forget: () => {},
  }
}

type Message = Incoming<'jobs.settled' | 'jobs.events'>

/** An event, its time in Unix ms, and the webhook address of its job if it gets the event. */
type Occurrence = {
  readonly event: Omit<WebhookDelivery, 'to'>
  readonly atMs: number
  readonly webhookUrl: string
}

/** The deliveries of the event of a message, one for each destination. */
async function planDeliveries (
  deps: DeliverDeps, { topic, value, raw: { headers: { traceparent } } }: Message
): Promise<readonly WebhookDelivery[]> {
  const { event, atMs, webhookUrl } = topic === 'jobs.settled'
    ? await readEnd(deps, value as Settled)
    : readEvent(value as JobEvent)
  const endpoints = findReceivers(await deps.subscriptions(event.tenant), event.type, atMs)
  return [
    ...webhookUrl === '' ? [] : [{ webhookUrl }], ...endpoints.map(endpoint => ({ endpoint })),
  ].map(to => ({ ...event, to, ...traceparent && { traceparent } }))
}

function readEvent ({ tenant, job, type, tenth, at }: JobEvent): Occurrence {
  const event = { tenant, job, type: type as EventType, ...tenth > 0 && { tenth } }
  return { event, atMs: at ?? Infinity, webhookUrl: '' }
}

/** The end of a job, whose address is unknown after its erasure. */
async function readEnd (
  { keys }: DeliverDeps, { tenant, job, status, header, endedAt }: Settled
): Promise<Occurrence> {
  const type = findEventType(status)
  if (type === undefined) {
    throw new InconsistencyError(`the message of the end of job ${job} of tenant ${tenant} has ` +
      `the status "${status}"; check which stage wrote it`)
  }
  const end = { event: { tenant, job, type }, atMs: endedAt, webhookUrl: '' }
  if (header === null) return end
  const key = await keys.get(tenant, job)
  if (key === undefined) return end
  return { ...end, webhookUrl: openHeader(key, { tenant, job }, header).webhookUrl }
}

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
    subscriptions: createOrganizations(connected.state).subscriptions,
    wake: () => workers.wake(),
    batch: config.DELIVER_BATCH_MESSAGES,
  })
  const messageCodec = createMessageCodec({ codec: connected.codec })
  const subscriptions = listSubscriptions('deliver')
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
    findJob: (tenant, job) => findStoredJob({ store, archive }, tenant, job),
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
