import { subscribeToJobs } from '../../services/jobs/job-waiter.ts'
import { createOutcomeWaiter } from '../../services/jobs/outcome-waiter.ts'
import { createEmitter } from '../../services/runtime/engine/emit.ts'
import { watchJobPartitions } from '../../services/runtime/kafka/partitioning.ts'
import type { Liveness } from '../../services/runtime/platform/liveness.ts'
import type { Chaos } from './chaos.ts'
import { redisLike } from './early-stages.ts'
import { chunkRowsOf } from './inputs.ts'
import type { Pipeline } from './pipeline.ts'
import type { Environment } from './environment.ts'
import { verifierOn } from './verifications.ts'

export type SubmitterOn = {
  readonly pipeline: Pipeline
  readonly subscriber: Environment['subscriber']
  readonly seed: number
  readonly chaos: Chaos
  readonly acceptWithinMs: number
}

/** What a submitter is made of; `stop` ends its waits. */
export async function submitterOn (
  { pipeline, subscriber, seed, chaos, acceptWithinMs }: SubmitterOn
) {
  const { store, keys, messageCodec, bus } = pipeline
  const notifications = await subscribeToJobs(subscriber())
  const outcomes = createOutcomeWaiter({ store, notifications, clock: redisLike, pollMs: 20 })
  const options = {
    store,
    keys,
    outcomes,
    emitter: createEmitter({
      messageCodec, producerOf: name => bus.producer(`ingest.${name}`),
    }),
    clock: redisLike,
    tokenVersion: '1',
    chunkRows: chunkRowsOf(seed, chaos),
    partitionsOf: watchJobPartitions(bus),
    liveness: unsure(chaos),
    acceptWithinMs: chaos.happens(0.1) ? 1 + chaos.below(40) : acceptWithinMs,
  }
  return { options, awaitRows: verifierOn(pipeline, notifications), stop: outcomes.stop }
}

/** Every request is of a process of its own, which others take for gone without a reason. */
function unsure (chaos: Chaos): Liveness {
  return {
    get own () { return `process-${chaos.below(1_000_000)}` },
    isGone: async () => chaos.happens(0.3),
    stop: () => {},
  }
}
