import type { StageName } from '../../topology.ts'
import type { Bus, Consumption, FetchBatching } from '../kafka/bus.ts'
import { systemClock, type Clock } from '../platform/clock.ts'
import { every, withTimeout } from '../platform/retry.ts'
import type { Subscription } from '../platform/topics.ts'
import { createDeadLetters } from './dead-letters.ts'
import { createEmitter } from './emit.ts'
import type { Attempts } from './attempts.ts'
import type { Gate } from './pause.ts'
import type { Stage, MessageCodec } from './stage.ts'
import { READ_AHEAD_BYTES, type ReadAhead } from './tenant-queue.ts'
import { type Effects, Steps, type StepsDeps } from './steps.ts'
import { Worker } from './worker.ts'

/** `sleep` and `random` are replaced in simulations, which must be reproducible. */
export type EngineDeps = StepsDeps & {
  readonly bus: Bus
  readonly messageCodec: MessageCodec
  readonly subscriptions: readonly Subscription[]
  /** Batching of fetches, for stages with expensive effects. */
  readonly fetchBatching?: (subscription: Subscription) => FetchBatching | undefined
  /** Number of consecutive failed decisions that stops the stage; 100 by default. */
  readonly deadLimit?: number
  /** The clock for postponed messages; the clock of this machine by default. */
  readonly clock?: Clock
  readonly effects?: Effects
  /** Interval between two flushes of held messages; 0 disables them. */
  readonly flushHeldMs?: number
  /** Flush once more at the stop, so that what is held does not wait for the next process. */
  readonly flushOnStop?: boolean
  /** Pauses the stage while it is closed; always open by default. */
  readonly gate?: Gate | undefined
  /** Finds messages that end their process; without it, such a message is delivered for ever. */
  readonly attempts?: Attempts
  /** The weight of a tenant in fair scheduling; 1 by default. */
  readonly weightOf?: (tenant: string) => number
}

export type RunningStage = {
  /** False before the groups are joined, and while infrastructure is unavailable. */
  readonly ready: () => boolean
  /** Resolves when all batches have stopped at their next step; nothing is committed after it. */
  readonly stop: () => Promise<void>
}

/** A stage whose held messages can be flushed at once. */
export type FlushableStage = RunningStage & { readonly flushHeld: () => Promise<void> }

const FLUSH_HELD_MS = 1_000
const DEAD_LIMIT = 100
/** How long a stop waits for the last flush. */
const LAST_FLUSH_MS = 1_000

/**
 * Runs a stage on its topics. A stage that holds messages must be a function, called once per
 * subscription: each consumer group needs its own state, because `forget` is called for each
 * generation of one group. A stateless stage may be passed directly.
 * @throws TypeError for a stage that holds messages of several subscriptions.
 */
export async function runStage<S extends StageName> (
  stage: Stage<S> | ((subscription: Subscription) => Stage<S>), deps: EngineDeps
): Promise<FlushableStage> {
  if (typeof stage !== 'function' && stage.flushHeld !== undefined &&
    deps.subscriptions.length > 1) {
    throw new TypeError(`the stage ${stage.name} holds messages, but its ` +
      `${deps.subscriptions.length} subscriptions share it: pass a function that creates one each`)
  }
  const readAhead = { bytes: 0, maxBytes: READ_AHEAD_BYTES }
  const stageOf = typeof stage === 'function' ? stage : () => stage
  const started = await Promise.allSettled(deps.subscriptions.map(subscription =>
    consume(stageOf(subscription), subscription, { ...deps, readAhead })))
  const running = started.flatMap(result => result.status === 'fulfilled' ? [result.value] : [])
  const stop = async () => { await Promise.all(running.map(consumption => consumption.stop())) }
  const failed = started.find(result => result.status === 'rejected')
  if (failed !== undefined) {
    await stop()
    throw failed.reason
  }
  return {
    ready: () => running.every(consumption => consumption.ready()),
    flushHeld: async () => {
      await Promise.all(running.map(consumption => consumption.flushHeld()))
    },
    stop,
  }
}

async function consume<S extends StageName> (
  given: Stage<S>, subscription: Subscription,
  deps: EngineDeps & { readonly readAhead: ReadAhead }
): Promise<Consumption & Pick<FlushableStage, 'flushHeld'>> {
  const { bus, messageCodec, metrics, clock = systemClock, readAhead, weightOf, attempts } = deps
  // From here on the engine does not need the type of the stage.
  const stage = given as unknown as Stage
  const { group } = subscription
  const log = deps.log.child({ stage: stage.name, group })
  const { sleep, random, gate } = deps
  const retries = { ...sleep && { sleep }, ...random && { random } }
  const waits = { ...retries, gate }
  const steps = new Steps({ metrics, log, effects: deps.effects, ...retries })
  const deadLetters = createDeadLetters({
    stage: stage.name,
    producer: () => bus.producer('dead'),
    metrics,
    limit: deps.deadLimit ?? DEAD_LIMIT,
    now: clock.now,
  })
  const emitter = createEmitter({ messageCodec, producerOf: bus.producer })
  const worker = new Worker({
    stage,
    subscription,
    messageCodec,
    emitter,
    deadLetters,
    steps,
    metrics,
    log,
    clock,
    readAhead,
    weightOf,
    attempts,
    ...waits,
  })
  const labels = { stage: stage.name, group }
  metrics.watch('stage_oldest_age_seconds', labels, () => worker.oldestAgeSeconds())
  metrics.watch('stage_held_messages', labels, () => worker.unfinished())
  metrics.watch('stage_blocked', labels, () => steps.stalled())
  const consumption = await bus.consume({
    group,
    topics: subscription.topics,
    fetchBatching: deps.fetchBatching?.(subscription),
    onDelivery: fetched => worker.onDelivery(fetched),
    onAssigned: () => worker.onAssigned(),
  })
  const { flushHeldMs = FLUSH_HELD_MS } = deps
  const flushHeld = () => worker.flushHeld()
  const flushing = every(stage.flushHeld === undefined ? 0 : flushHeldMs, flushHeld)
  return {
    ready: () => consumption.ready() && steps.stalled() === 0,
    flushHeld,
    stop: async () => {
      if (deps.flushOnStop === true) await withTimeout(flushHeld(), LAST_FLUSH_MS)
      await Promise.all([consumption.stop(), flushing.stop()])
      await attempts?.settled()
    },
  }
}
