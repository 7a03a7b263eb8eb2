import { createDeliveries, type Deliveries } from '../jobs/deliveries.ts'
import { createDeliveryHistory, type DeliveryHistory } from '../jobs/delivery-history.ts'
import { JobKeyLostError, type JobKeys } from '../jobs/job-keys.ts'
import type { Job } from '../jobs/job.ts'
import type { Deps as Connected } from '../engine/deps.ts'
import { openHeader, type JobHeader } from '../jobs/wire.ts'

type Options = Pick<Connected, 'clickhouse' | 'recordMac' | 'state'> & {
  readonly keys: Pick<JobKeys, 'get'>
}

/** What was sealed with a job, the address of its webhook in it, and what came of the webhook. */
export type Webhooks = {
  /** Labels and webhook address; both empty for a job that was erased. */
  readonly openHeader: (job: Job) => Promise<JobHeader>
  /** All attempts of a job's deliveries, each delivery's in order. */
  readonly listAttempts: DeliveryHistory['list']
  readonly findDelivery: Deliveries['find']
  /** Sends an event once more, at once, unless an attempt is under way. */
  readonly resend: Deliveries['resend']
}

/** Reads what jobs say of their webhooks from their stores, and has events sent again. */
export function createWebhooks ({ clickhouse, recordMac, keys, state }: Options): Webhooks {
  const deliveries = createDeliveries(state)
  return {
    listAttempts: createDeliveryHistory(clickhouse, recordMac).list,
    findDelivery: deliveries.find,
    resend: deliveries.resend,
    openHeader: async job => {
      if (job.header.length === 0) return { metadata: {}, webhookUrl: '' }
      const key = await keys.get(job.tenant, job.id).catch(noneIfLost)
      // Without its key a job was erased: its labels are gone, its counts may still be seen.
      if (key === undefined) return { metadata: {}, webhookUrl: '' }
      return openHeader(key, { tenant: job.tenant, job: job.id }, job.header)
    },
  }
}

/** A running job whose key is nowhere still has a status. */
function noneIfLost (error: unknown): undefined {
  if (!(error instanceof JobKeyLostError)) throw error
}
