import type { Settled } from '../../schemas/types.ts'
import type { Deliveries, Delivery } from '../jobs/deliveries.ts'
import { eventTypeOf } from '../jobs/events.ts'
import type { JobKeys } from '../jobs/job-keys.ts'
import { openHeader } from '../jobs/wire.ts'
import { failpoint } from '../lib/failpoint.ts'
import type { Stage } from '../lib/stage.ts'

export type DeliverParts = {
  readonly deliveries: Pick<Deliveries, 'put'>
  readonly keys: Pick<JobKeys, 'get'>
  /** Tells those who make the attempts that there is work. */
  readonly wake: () => void
  /** Messages handed to one call of `decide`. */
  readonly batch: number
}

/**
 * Takes up the events of jobs that came to their end. A job without a webhook address has none, and
 * an event that is known already stays as it is, so a message may come any number of times.
 */
export function createDeliverStage (parts: DeliverParts): Stage<'deliver'> {
  return {
    name: 'deliver',
    batch: parts.batch,
    decide: async messages => {
      const found = await Promise.all(messages.map(async ({ value, raw }) => {
        const { traceparent } = raw.headers
        const delivery = await deliveryOf(parts, value)
        return delivery && { ...delivery, ...traceparent && { traceparent } }
      }))
      const wanted = found.filter(delivery => delivery !== undefined)
      await Promise.all(wanted.map(delivery => parts.deliveries.put(delivery)))
      failpoint('deliver.put')
      if (wanted.length > 0) parts.wake()
      return [{ finishes: messages, emits: [] }]
    },
    whenDead: async () => [],
    forget: () => {},
  }
}

/** The delivery a job asks for; none without an address, or once the job is erased. */
async function deliveryOf (
  { keys }: DeliverParts, { tenant, job, status, header }: Settled
): Promise<Delivery | undefined> {
  const type = eventTypeOf(status)
  if (type === undefined) throw new Error(`a job that is ${status} has not come to its end`)
  if (header === null) return undefined
  const key = await keys.get(tenant, job)
  if (key === undefined) return undefined
  const { webhookUrl } = openHeader(key, { tenant, job }, header)
  return webhookUrl === '' ? undefined : { tenant, job, type, webhookUrl }
}
