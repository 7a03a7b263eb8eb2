import { createWebhookEndpoints, type WebhookEndpoints } from '../webhooks/endpoints.ts'
import {
  activeOrFirst, createWebhookSigningKeys, publicKeyText,
} from '../webhooks/secrets.ts'
import type { OrganizationKeys } from '../accounts/organization-keys.ts'
import { createDeliveries, type Deliveries } from '../webhooks/deliveries.ts'
import { createDeliveryHistory, type DeliveryHistory } from '../webhooks/delivery-history.ts'
import { headerKeyOf } from '../jobs/job-key-parts.ts'
import { JobKeyLostError, type JobKeys } from '../jobs/job-keys.ts'
import type { Job } from '../jobs/job.ts'
import type { Connections } from '../runtime/engine/connections.ts'
import { openHeader, type JobHeader } from '../jobs/message-codec.ts'

export type WebhookOptions = Pick<Connections, 'clickhouse' | 'recordMac' | 'state' | 'clock'> & {
  readonly keys: Pick<JobKeys, 'get'>
  /** Wraps webhook endpoints and signing keys. */
  readonly webhookKeys: OrganizationKeys
}

/** The sealed header of a job, webhook endpoints, and the deliveries of both. */
export type Webhooks = {
  readonly endpoints: Pick<WebhookEndpoints, 'list' | 'create' | 'update' | 'rotate' | 'remove'>
  /** Labels and webhook address; both empty for an erased job. */
  readonly openHeader: (job: Job) => Promise<JobHeader>
  /** All attempts of the deliveries of a job, in order per delivery. */
  readonly listAttempts: DeliveryHistory['list']
  /** The attempts to an endpoint, those of the newest jobs first. */
  readonly listEndpointAttempts: DeliveryHistory['listOfEndpoint']
  readonly findDelivery: Deliveries['find']
  /** Sends an event again at once, unless an attempt is in progress. */
  readonly resend: Deliveries['resend']
  /** The public keys that verify the events of an organization, the newest first. */
  readonly webhookKeys: (orgId: string) => Promise<readonly string[]>
}

/** Reads webhook data of jobs, and resends events. */
export function createWebhooks (options: WebhookOptions): Webhooks {
  const { clickhouse, recordMac, keys, state, clock, webhookKeys } = options
  const deliveries = createDeliveries(state)
  const history = createDeliveryHistory(clickhouse, recordMac)
  const secured = { redis: state, keys: webhookKeys, now: clock.now }
  const signingKeys = createWebhookSigningKeys(secured)
  return {
    endpoints: createWebhookEndpoints(secured),
    webhookKeys: async orgId => (await activeOrFirst(signingKeys, orgId)).map(publicKeyText),
    listAttempts: history.list,
    listEndpointAttempts: history.listOfEndpoint,
    findDelivery: deliveries.find,
    resend: deliveries.resend,
    openHeader: async job => {
      if (job.header.length === 0) return { metadata: {}, webhookUrl: '' }
      const key = await keys.get(job.tenant, job.id).catch(noneIfLost)
      // A job without its key was erased: its labels are gone, but its counts are still visible.
      if (key === undefined) return { metadata: {}, webhookUrl: '' }
      return openHeader(headerKeyOf(key), { tenant: job.tenant, job: job.id }, job.header)
    },
  }
}

/** A running job with a lost key still has a status. */
function noneIfLost (error: unknown): undefined {
  if (!(error instanceof JobKeyLostError)) throw error
}
