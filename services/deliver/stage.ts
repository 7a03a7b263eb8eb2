import type { JobEvent, Settled } from '../../schemas/types.ts'
import { receiversOf, type Subscriptions } from '../webhooks/endpoints.ts'
import type { Deliveries, WebhookDelivery } from '../webhooks/deliveries.ts'
import { eventTypeOf } from '../webhooks/event.ts'
import type { EventType } from '../../schemas/api/webhooks.ts'
import type { JobKeys } from '../jobs/job-keys.ts'
import { openHeader } from '../jobs/message-codec.ts'
import { InconsistencyError } from '../runtime/platform/errors.ts'
import { failpoint } from '../runtime/platform/failpoint.ts'
import type { Incoming, Stage } from '../runtime/engine/stage.ts'

type DeliverDeps = {
  readonly deliveries: Pick<Deliveries, 'put'>
  readonly keys: Pick<JobKeys, 'get'>
  /** The subscriptions of the webhook endpoints of a tenant. */
  readonly subscriptions: Subscriptions
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
      const deliveries = (await Promise.all(messages.map(async message => {
        const { traceparent } = message.raw.headers
        const ofMessage = await deliveriesOf(deps, message)
        return ofMessage.map(delivery => ({ ...delivery, ...traceparent && { traceparent } }))
      }))).flat()
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

async function deliveriesOf (
  deps: DeliverDeps, message: Message
): Promise<readonly WebhookDelivery[]> {
  if (message.topic === 'jobs.settled') {
    return await deliveriesOfEnd(deps, message.value as Settled)
  }
  const { tenant, job, type, tenth, at } = message.value as JobEvent
  const event = { tenant, job, type: type as EventType, ...tenth > 0 && { tenth } }
  return await toEndpoints(deps, event, at ?? Infinity)
}

/** An event without its destination. */
type Event = Omit<WebhookDelivery, 'to'>

/** To every endpoint that receives the event. */
async function toEndpoints (
  { subscriptions }: DeliverDeps, event: Event, atMs: number
): Promise<readonly WebhookDelivery[]> {
  return receiversOf(await subscriptions(event.tenant), event.type, atMs)
    .map(endpoint => ({ ...event, to: { endpoint } }))
}

/** The deliveries of the end of a job. Its own address is unknown after the job's erasure. */
async function deliveriesOfEnd (
  deps: DeliverDeps, { tenant, job, status, header, endedAt }: Settled
): Promise<readonly WebhookDelivery[]> {
  const type = eventTypeOf(status)
  if (type === undefined) {
    throw new InconsistencyError(`the message of the end of job ${job} of tenant ${tenant} has ` +
      `the status "${status}"; check which stage wrote it`)
  }
  const event = { tenant, job, type }
  const key = header === null ? undefined : await deps.keys.get(tenant, job)
  const webhookUrl = header === null || key === undefined
    ? ''
    : openHeader(key, { tenant, job }, header).webhookUrl
  const toJob = webhookUrl === '' ? [] : [{ ...event, to: { webhookUrl } }]
  return [...toJob, ...await toEndpoints(deps, event, endedAt)]
}
