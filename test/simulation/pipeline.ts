import type { Redis } from 'ioredis'
import { createCodec } from '../../services/runtime/kafka/registry.ts'
import { localSource } from '../support/kafka/local-schemas.ts'
import type { OutgoingMessage } from '../../services/runtime/kafka/bus.ts'
import { whyFixed } from '../../services/runtime/platform/topics.ts'
import { createMemoryBus, type MemoryBus } from '../support/kafka/memory-bus.ts'
import type { Chaos } from './chaos.ts'
import { changingLists, hasLists } from './inputs.ts'
import { createSupervisor } from './supervisor.ts'
import { createPoison } from './poison.ts'
import { jobsOf } from './stubs.ts'
import { stageMakers } from './stages.ts'
import { createStores } from './stores.ts'
import { sealing } from './wiring.ts'
import { createObserver } from './observer.ts'
import type { Environment } from './environment.ts'

export type Faults = {
  /** Probability that a stage crashes before an effect. */
  readonly crash: number
  /** Probability that a send arrives twice. */
  readonly duplicate: number
  /** Probability that the provider is down for a call. */
  readonly providerDown: number
  /** Probability that a host puts a row off. */
  readonly hostBusy: number
  /** Probability that a message with rows arrives broken. */
  readonly poison: number
  /** Probability that a chunk is corrupted when read again after `accept`, before `announced`. */
  readonly corruption: number
  /** Probability that the key of a running job is lost, at each use of a key. */
  readonly keyLoss: number
  /** How often the Redis with the state is lost. */
  readonly stateLosses: number
  /** Chunks that are normalized before topics get more partitions; 0 if they never do. */
  readonly growth: number
}

export type PipelineOptions = {
  readonly redis: Redis
  readonly cache: Redis
  /** Each stage has connections of its own. */
  readonly connect: Environment['connect']
  readonly losses: Pick<Environment['losses'], 'lost'>
  readonly chaos: Chaos
  readonly faults: Faults
  readonly seed: number
}

export type Pipeline = Awaited<ReturnType<typeof startPipeline>>

/** All stages of the pipeline in one process, joined by a broker in memory that behaves badly. */
export async function startPipeline (
  { redis, connect, losses, chaos, faults, seed }: PipelineOptions
) {
  const stores = createStores()
  const codec = createCodec(localSource())
  const memory = faultyBus(chaos, faults)
  const poison = createPoison({ bus: memory, codec, chaos, probability: faults.poison })
  const bus = growing({ ...memory, ...poison.bus }, faults.growth)
  const store = jobsOf(redis)
  const { keys, messageCodec, corruption, forgetKeys } = sealing({
    redis, bus: memory, codec, store, chaos, faults,
  })
  const observer = createObserver({ redis, bus: memory, codec, losses })
  const time = { aheadMs: 0 }
  const lists = hasLists(seed) ? changingLists(chaos, faults.providerDown) : undefined
  const shared = { connect, stores, codec, messageCodec, chaos, faults, observer, lists, time }
  const makers = stageMakers(shared)
  const supervisor = createSupervisor({ bus, messageCodec, chaos, makers, crash: faults.crash })
  await supervisor.startAll()
  return {
    bus,
    stores,
    codec,
    keys,
    messageCodec,
    store,
    poisoned: poison.poisoned,
    corruption,
    forgetKeys,
    observer,
    crashes: supervisor.crashes,
    /** Resolves when nothing is left to do and no stage is restarting. */
    idle: async (): Promise<void> => {
      let before = 0
      do {
        before = await countMessages(bus)
        await bus.idle()
        await supervisor.release()
        await bus.idle()
        // What a release sends may have to be released by the next stage.
      } while (await supervisor.settled() || await countMessages(bus) > before)
    },
    /** Advances the clock of stages that hold messages. */
    pass: (ms: number) => { time.aheadMs += ms },
    /** Injects no fault from now on. */
    stopFaults: () => {
      supervisor.stopFaults()
      poison.stopFaults()
      corruption.stopFaults()
    },
    stop: async () => {
      await supervisor.stop()
      await bus.close()
    },
  }
}

async function countMessages (bus: MemoryBus): Promise<number> {
  const names = await bus.topicNames()
  return [...names].reduce((sum, topic) => sum + bus.messages(topic).length, 0)
}

/** Adds partitions to every topic that may grow, in the middle of the jobs that run then. */
function growing (bus: MemoryBus, afterChunks: number): MemoryBus {
  let chunks = 0
  const isGrown = () => afterChunks > 0 && chunks >= afterChunks
  const count = (messages: readonly OutgoingMessage[]) => {
    const wasGrown = isGrown()
    chunks += messages.filter(({ topic }) => topic.startsWith('rows.normalized.')).length
    if (isGrown() && !wasGrown) bus.grow(topic => whyFixed(topic) === undefined ? 5 : 2)
  }
  const producer: MemoryBus['producer'] = name => {
    const { send, close } = bus.producer(name)
    return {
      send: async (messages, signal) => {
        await send(messages, signal)
        count(messages)
      },
      close,
    }
  }
  return { ...bus, producer }
}

/** A broker with two partitions per topic that duplicates sends and splits deliveries. */
function faultyBus (chaos: Chaos, { duplicate }: Faults) {
  return createMemoryBus({
    seed: chaos.below(2 ** 31),
    duplicateSends: duplicate,
    maxDelivery: 1 + chaos.below(6),
    partitionsOf: () => 2,
    onFatal: () => {},
  })
}
