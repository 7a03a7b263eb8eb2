import type { Settled } from '../../schemas/types.ts'
import type { DeliveryClaim, Deliveries, WebhookDelivery } from '../jobs/deliveries.ts'
import { eventTypeOf } from '../jobs/events.ts'
import type { JobKeys } from '../jobs/job-keys.ts'
import { openHeader } from '../jobs/message-codec.ts'
import { FatalError, InconsistencyError, isInfrastructure } from '../platform/errors.ts'
import { failpoint } from '../platform/failpoint.ts'
import type { Stage } from '../engine/stage.ts'
import { withTrace } from '../platform/tracing.ts'
import { makeAttempt, recordInternalFailure, type AttemptDeps } from './attempt.ts'
import {
  countAttempts, startHistory, startQueueDepth, type HistoryDeps, type QueueDepthDeps,
} from './background-tasks.ts'
import { startWorkers, type Workers, type WorkersDeps } from './workers.ts'

type DeliverDeps = {
  readonly deliveries: Pick<Deliveries, 'put'>
  readonly keys: Pick<JobKeys, 'get'>
  /** Starts the next poll of the workers now. */
  readonly wake: () => void
  /** Maximum number of messages in one call of `decide`. */
  readonly batch: number
}

/**
 * Queues the webhook events of ended jobs. A job without a webhook address has no event. An event
 * that is already queued stays unchanged, so a message may arrive any number of times.
 */
export function createDeliverStage (deps: DeliverDeps): Stage<'deliver'> {
  return {
    name: 'deliver',
    batch: deps.batch,
    decide: async messages => {
      const found = await Promise.all(messages.map(async ({ value, raw }) => {
        const { traceparent } = raw.headers
        const delivery = await deliveryOf(deps, value)
        return delivery && { ...delivery, ...traceparent && { traceparent } }
      }))
      const wanted = found.filter(delivery => delivery !== undefined)
      await Promise.all(wanted.map(delivery => deps.deliveries.put(delivery)))
      failpoint('deliver.put')
      if (wanted.length > 0) deps.wake()
      return [{ completes: messages, emits: [] }]
    },
    resolveDead: async () => [],
    forget: () => {},
  }
}

/** The delivery of a job; undefined without a webhook address and after the job's erasure. */
async function deliveryOf (
  { keys }: DeliverDeps, { tenant, job, status, header }: Settled
): Promise<WebhookDelivery | undefined> {
  const type = eventTypeOf(status)
  if (type === undefined) {
    throw new InconsistencyError(`job ${job} of tenant ${tenant} is announced as ended, but has ` +
      `the status "${status}"; check which stage wrote this message`)
  }
  if (header === null) return undefined
  const key = await keys.get(tenant, job)
  if (key === undefined) return undefined
  const { webhookUrl } = openHeader(key, { tenant, job }, header)
  return webhookUrl === '' ? undefined : { tenant, job, type, webhookUrl }
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
