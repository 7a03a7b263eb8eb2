import { createDeliveries, type Deliveries } from '../jobs/deliveries.ts'
import { createDeliveryHistory, type DeliveryHistory } from '../jobs/delivery-history.ts'
import { JobKeyLostError, type JobKeys } from '../jobs/job-keys.ts'
import type { Job } from '../jobs/job.ts'
import type { Connections } from '../engine/connections.ts'
import { openHeader, type JobHeader } from '../jobs/message-codec.ts'

type Options = Pick<Connections, 'clickhouse' | 'recordMac' | 'state'> & {
  readonly keys: Pick<JobKeys, 'get'>
}

/** The sealed header of a job, and the deliveries of its webhook. */
export type Webhooks = {
  /** Labels and webhook address; both empty for an erased job. */
  readonly openHeader: (job: Job) => Promise<JobHeader>
  /** All attempts of the deliveries of a job, in order per delivery. */
  readonly listAttempts: DeliveryHistory['list']
  /** The attempts to an endpoint, those of the newest jobs first. */
  readonly listEndpointAttempts: DeliveryHistory['listOfEndpoint']
  readonly findDelivery: Deliveries['find']
  /** Sends an event again at once, unless an attempt is in progress. */
  readonly resend: Deliveries['resend']
}

/** Reads webhook data of jobs, and resends events. */
export function createWebhooks ({ clickhouse, recordMac, keys, state }: Options): Webhooks {
  const deliveries = createDeliveries(state)
  const history = createDeliveryHistory(clickhouse, recordMac)
  return {
    listAttempts: history.list,
    listEndpointAttempts: history.listOfEndpoint,
    findDelivery: deliveries.find,
    resend: deliveries.resend,
    openHeader: async job => {
      if (job.header.length === 0) return { metadata: {}, webhookUrl: '' }
      const key = await keys.get(job.tenant, job.id).catch(noneIfLost)
      // A job without its key was erased: its labels are gone, but its counts are still visible.
      if (key === undefined) return { metadata: {}, webhookUrl: '' }
      return openHeader(key, { tenant: job.tenant, job: job.id }, job.header)
    },
  }
}

/** A running job with a lost key still has a status. */
function noneIfLost (error: unknown): undefined {
  if (!(error instanceof JobKeyLostError)) throw error
}
