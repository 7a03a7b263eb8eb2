import type { StageName } from '../topology.ts'
import type { Bus, Consumption, FetchBatching, Producer } from '../kafka/bus.ts'
import { systemClock, type Clock } from '../platform/clock.ts'
import { createDeadLetters } from './dead-letters.ts'
import { createEmitter } from './emit.ts'
import type { Gate } from './pause.ts'
import { every } from './flush-held.ts'
import type { Stage } from './stage.ts'
import { READ_AHEAD_BYTES, type ReadAhead } from './tenant-queue.ts'
import { createSteps, type Effects, type StepsDeps } from './steps.ts'
import type { Subscription } from '../platform/topics.ts'
import type { MessageCodec } from './wire.ts'
import { createWorker } from './worker.ts'

/** With `sleep` and `random` only where runs have to repeat themselves. */
export type EngineDeps = StepsDeps & {
  readonly bus: Bus
  readonly wire: MessageCodec
  readonly subscriptions: readonly Subscription[]
  /** What messages may wait for; where effects are dear, fewer of them are better. */
  readonly gather?: (subscription: Subscription) => FetchBatching | undefined
  /** Stages in one process must not share producers; the stage's name by default. */
  readonly producerName?: string
  /** So many dead decisions in a row stop the stage; 100 by default. */
  readonly deadLimit?: number
  /** Judges when postponed messages are due; this machine's clock by default. */
  readonly clock?: Clock
  readonly effects?: Effects
  /** Pause between two looks for held messages that wait for nothing more; 0 for never. */
  readonly releaseEveryMs?: number
  /** Pauses the stage while it is closed; open for ever by default. */
  readonly gate?: Gate | undefined
  /** How much of a stage that works by tenants one of them gets; 1 by default. */
  readonly weightOf?: (tenant: string) => number
}

export type RunningStage = {
  /** False before the groups are joined, and while infrastructure is not to be had. */
  readonly ready: () => boolean
  /** Returns when what is being processed has come to its next step; nothing more is committed. */
  readonly stop: () => Promise<void>
}

/** With `release`, by which held messages that wait for nothing more are let go at once. */
export type ReleasingStage = RunningStage & { readonly release: () => Promise<void> }

const RELEASE_EVERY_MS = 1_000
const DEAD_LIMIT = 100

/**
 * Runs a stage on its topics. A stage that holds messages is given as a function, called once a
 * subscription: what it remembers must be of one consumer group, as `forget` is called when that
 * group has a new generation. A stage that remembers nothing may be given as it is.
 */
export async function runStage<S extends StageName> (
  stage: Stage<S> | ((subscription: Subscription) => Stage<S>), deps: EngineDeps
): Promise<ReleasingStage> {
  const producers = createProducers(deps.bus)
  const ahead = { bytes: 0, mostBytes: READ_AHEAD_BYTES }
  const stageOf = typeof stage === 'function' ? stage : () => stage
  const started = await Promise.allSettled(deps.subscriptions.map(subscription =>
    consume(stageOf(subscription), subscription, { ...deps, ahead, producerOf: producers.of })))
  const running = started.flatMap(result => result.status === 'fulfilled' ? [result.value] : [])
  const stop = async () => {
    await Promise.all(running.map(consumption => consumption.stop()))
    await producers.close()
  }
  const failed = started.find(result => result.status === 'rejected')
  if (failed !== undefined) {
    await stop()
    throw failed.reason
  }
  return {
    ready: () => running.every(consumption => consumption.ready()),
    release: async () => { await Promise.all(running.map(({ release }) => release())) },
    stop,
  }
}

async function consume<S extends StageName> (
  given: Stage<S>, subscription: Subscription,
  deps: EngineDeps & {
    readonly ahead: ReadAhead, readonly producerOf: (name: string) => Producer,
  }
): Promise<Consumption & Pick<ReleasingStage, 'release'>> {
  const { bus, wire, metrics, producerOf, producerName = given.name, clock = systemClock } = deps
  const { ahead, weightOf } = deps
  // Which stage it is matters to its author; from here on all are alike.
  const stage = given as unknown as Stage
  const { group } = subscription
  const log = deps.log.child({ stage: stage.name, group })
  const { sleep, random, gate } = deps
  const retries = { ...sleep && { sleep }, ...random && { random } }
  const waits = { ...retries, gate }
  const steps = createSteps({ metrics, log, effects: deps.effects, ...retries })
  const deadLetters = createDeadLetters({
    stage: stage.name,
    producer: () => producerOf(`${producerName}.dead`),
    metrics,
    limit: deps.deadLimit ?? DEAD_LIMIT,
    now: clock.now,
  })
  const emitter = createEmitter({ wire, producerOf: name => producerOf(`${producerName}.${name}`) })
  const worker = createWorker({
    stage,
    subscription,
    wire,
    emitter,
    deadLetters,
    steps,
    metrics,
    log,
    clock,
    ahead,
    weightOf,
    ...waits,
  })
  const { onDelivery, onAssigned, ages, unfinished, release } = worker
  metrics.watch('stage_oldest_age_seconds', { stage: stage.name, group }, ages)
  metrics.watch('stage_held_messages', { stage: stage.name, group }, unfinished)
  metrics.watch('stage_blocked', { stage: stage.name, group }, steps.blocked)
  const { topics } = subscription
  const gather = deps.gather?.(subscription)
  const consumption = await bus.consume({ group, topics, gather, onDelivery, onAssigned })
  const { releaseEveryMs = RELEASE_EVERY_MS } = deps
  const releasing = every(stage.release === undefined ? 0 : releaseEveryMs, release)
  return {
    ready: () => consumption.ready() && steps.blocked() === 0,
    release,
    stop: async () => { await Promise.all([consumption.stop(), releasing.stop()]) },
  }
}

/** Producers by name, made when they are first needed. */
function createProducers (bus: Bus) {
  const byName = new Map<string, Producer>()
  const of = (name: string) => {
    const producer = byName.get(name) ?? bus.producer(name)
    byName.set(name, producer)
    return producer
  }
  const close = async () => {
    await Promise.all([...byName.values()].map(producer => producer.close()))
  }
  return { of, close }
}
