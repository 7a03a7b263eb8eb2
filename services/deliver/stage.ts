import type { JobEvent, Settled } from '../../schemas/types.ts'
import { receiversOf, type Subscriptions } from '../webhooks/endpoints.ts'
import type { Deliveries, DeliveryClaim, WebhookDelivery } from '../webhooks/deliveries.ts'
import { type EventType, eventTypeOf } from '../jobs/events.ts'
import type { JobKeys } from '../jobs/job-keys.ts'
import { openHeader } from '../jobs/message-codec.ts'
import { FatalError, InconsistencyError, isInfrastructure } from '../runtime/platform/errors.ts'
import { failpoint } from '../runtime/platform/failpoint.ts'
import type { Incoming, Stage } from '../runtime/engine/stage.ts'
import { withTrace } from '../runtime/platform/tracing.ts'
import { type AttemptDeps, makeAttempt, recordInternalFailure } from '../webhooks/attempt.ts'
import {
  countAttempts, type HistoryDeps, type QueueDepthDeps, startHistory, startQueueDepth,
} from '../webhooks/background-tasks.ts'
import { startWorkers, type Workers, type WorkersDeps } from '../webhooks/workers.ts'

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
      const found = await Promise.all(messages.map(async message => {
        const { traceparent } = message.raw.headers
        const deliveries = await deliveriesOf(deps, message)
        return deliveries.map(it => ({ ...it, ...traceparent && { traceparent } }))
      }))
      const wanted = found.flat()
      await Promise.all(wanted.map(delivery => deps.deliveries.put(delivery)))
      failpoint('deliver.put')
      if (wanted.length > 0) deps.wake()
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
    throw new InconsistencyError(`job ${job} of tenant ${tenant} is announced as ended, but has ` +
      `the status "${status}"; check which stage wrote this message`)
  }
  const event = { tenant, job, type }
  const webhookUrl = await webhookUrlOf(deps, { tenant, job, header })
  const own = webhookUrl === '' ? [] : [{ ...event, to: { webhookUrl } }]
  return [...own, ...await toEndpoints(deps, event, endedAt)]
}

async function webhookUrlOf (
  { keys }: DeliverDeps, { tenant, job, header }: Pick<Settled, 'tenant' | 'job' | 'header'>
): Promise<string> {
  if (header === null) return ''
  const key = await keys.get(tenant, job)
  return key === undefined ? '' : openHeader(key, { tenant, job }, header).webhookUrl
}

export type DeliveryDeps = AttemptDeps & HistoryDeps & QueueDepthDeps &
  Omit<WorkersDeps, 'attempt'> & {
    readonly deliveries: Deliveries
  }

/** Makes due attempts and ships their records to the history, beside the stage, until stopped. */
export function startDelivery (deps: DeliveryDeps): Workers {
  const history = startHistory(deps)
  const queueDepth = startQueueDepth(deps)
  const counted = { ...deps, deliveries: countAttempts(deps) }
  const workers = startWorkers({
    ...deps,
    // An attempt belongs to the trace of its job, even hours later.
    attempt: claim => {
      const { traceparent } = claim
      return withTrace({ ...traceparent && { traceparent } }, () => attempt(counted, claim))
    },
  })
  const stop = async () => {
    await Promise.all([workers.stop(), queueDepth.stop()])
    await history.stop()
  }
  return { ready: () => workers.ready() && history.ready(), wake: workers.wake, stop }
}

/**
 * Makes an attempt; an internal error counts as a failed attempt, so that it is not repeated in a
 * tight loop. An infrastructure error is not recorded: no store can record it, and the lease of the
 * attempt expires. A key that the key ring lacks is not recorded either, because it would use up
 * all attempts before an operator adds the key.
 */
async function attempt (deps: DeliveryDeps, claim: DeliveryClaim): Promise<void> {
  try {
    await makeAttempt(deps, claim)
  } catch (error) {
    if (isInfrastructure(error) || error instanceof FatalError) throw error
    const { tenant, job, event } = claim
    const fields = { err: error, tenant, job, event }
    deps.log.warn(fields, 'webhook attempt failed internally, retrying as scheduled')
    await recordInternalFailure(deps, claim)
  }
}
