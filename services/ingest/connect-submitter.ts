import type { SubmitterKeys } from '../jobs/job-keys.ts'
import {
  createJobWaiter, type JobWaiter, type Notifications, subscribeToJobs,
} from '../jobs/job-waiter.ts'
import { createOutcomeWaiter } from '../jobs/outcome-waiter.ts'
import type { JobStore } from '../jobs/store.ts'
import { createSubmitter, type Submitter } from '../jobs/submit.ts'
import { createMessageCodec } from '../jobs/message-codec.ts'
import type { Bus } from '../runtime/kafka/bus.ts'
import { watchJobPartitions } from '../runtime/kafka/partitioning.ts'
import type { Clock } from '../runtime/platform/clock.ts'
import { createEmitter } from '../runtime/engine/emit.ts'
import { startLiveness } from '../runtime/platform/liveness.ts'
import type { Codec } from '../runtime/kafka/registry.ts'
import type { ServiceContext } from '../runtime/platform/run.ts'
import type { Archive } from '../jobs/results/archive.ts'
import { type Connections, openSubscriber } from '../runtime/engine/connections.ts'

type Options = {
  readonly bus: Bus
  readonly codec: Codec
  readonly state: Connections['state']
  readonly clock: Clock
  readonly store: JobStore
  readonly findArchived: Archive['find']
  readonly keys: SubmitterKeys
  readonly settings: {
    readonly CACHE_SECRET_ACTIVE: string
    readonly ACCEPT_WITHIN_MS: number
    readonly MAX_WAITS: number
    readonly MAX_WAITS_PER_TENANT: number
  }
  readonly context: Pick<ServiceContext, 'onStop' | 'metrics'>
}

type ConnectedSubmitter = {
  readonly submission: Submitter
  readonly waiter: JobWaiter
  readonly attachedTo: Notifications['attachedTo']
}

/**
 * The connection to the pipeline: producers by lane, and one subscriber for the outcomes of
 * requests and the changes of jobs.
 */
export async function connectSubmitter (options: Options): Promise<ConnectedSubmitter> {
  const { codec, clock, store, findArchived, keys, settings, context } = options
  const notifications = await subscribeToJobs(openSubscriber(options.state, context))
  const outcomes = createOutcomeWaiter({ store, findArchived, notifications, clock })
  context.onStop(() => outcomes.stop())
  const messageCodec = createMessageCodec({ codec, keys })
  const emitter = createEmitter({ messageCodec, producerOf: options.bus.producer })
  const liveness = await startLiveness(options.state)
  context.onStop(() => liveness.stop())
  const { CACHE_SECRET_ACTIVE: tokenVersion, ACCEPT_WITHIN_MS: acceptWithinMs } = settings
  const submission = createSubmitter({
    store,
    keys,
    emitter,
    outcomes,
    clock,
    liveness,
    tokenVersion,
    acceptWithinMs,
    partitionsOf: watchJobPartitions(options.bus),
  })
  const { MAX_WAITS: maxWaits, MAX_WAITS_PER_TENANT: maxWaitsPerTenant } = settings
  const waiter = createJobWaiter({ store, notifications, maxWaits, maxWaitsPerTenant })
  context.metrics.watch('requests_waiting', {}, waiter.waits)
  context.metrics.watch('requests_waiting_limit', {}, () => maxWaits)
  return { submission, waiter, attachedTo: notifications.attachedTo }
}
