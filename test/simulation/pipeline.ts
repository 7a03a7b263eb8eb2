import type { Redis } from 'ioredis'
import { createCodec, localSource } from '../../services/kafka/registry.ts'
import { createMemoryBus } from '../support/memory-bus.ts'
import type { Chaos } from './chaos.ts'
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
  /** Probability that a message with rows arrives broken. */
  readonly poison: number
  /** Probability that a chunk is corrupted when read again after `accept`, before `announced`. */
  readonly corruption: number
  /** Probability that the key of a running job is lost, at each use of a key. */
  readonly keyLoss: number
  /** How often the Redis with the state is lost. */
  readonly stateLosses: number
}

export type PipelineOptions = {
  readonly redis: Redis
  readonly cache: Redis
  /** Each stage has connections of its own. */
  readonly connect: Environment['connect']
  readonly losses: Pick<Environment['losses'], 'lost'>
  readonly chaos: Chaos
  readonly faults: Faults
}

export type Pipeline = Awaited<ReturnType<typeof startPipeline>>

/** All stages of the pipeline in one process, joined by a broker in memory that behaves badly. */
export async function startPipeline ({ redis, connect, losses, chaos, faults }: PipelineOptions) {
  const stores = createStores()
  const codec = createCodec(localSource())
  const memory = faultyBus(chaos, faults)
  const poison = createPoison({ bus: memory, codec, chaos, probability: faults.poison })
  const bus = { ...memory, ...poison.bus }
  const store = jobsOf(redis)
  const { keys, messageCodec, corruption, forgetKeys } = sealing({
    redis, bus: memory, codec, store, chaos, faults,
  })
  const observer = createObserver({ redis, bus: memory, codec, losses })
  const time = { aheadMs: 0 }
  const shared = { connect, stores, codec, messageCodec, chaos, faults, observer, time }
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
      do {
        await bus.idle()
        await supervisor.release()
        await bus.idle()
      } while (await supervisor.settled())
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
