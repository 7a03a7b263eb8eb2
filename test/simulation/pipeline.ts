import type { Redis } from 'ioredis'
import { randomBytes } from 'node:crypto'
import { createJobStore } from '../../services/jobs/store.ts'
import { createKeyRing } from '../../services/lib/key-ring.ts'
import { createCodec, localSource } from '../../services/lib/registry.ts'
import { createMemoryBus } from '../support/memory-bus.ts'
import type { Chaos } from './chaos.ts'
import { createKeeper } from './keeper.ts'
import { createPoison } from './poison.ts'
import { stageMakers } from './stages.ts'
import { createStores } from './stores.ts'
import { keysAndWire } from './wiring.ts'

export type Faults = {
  /** Probability that a stage dies before an effect. */
  readonly crash: number
  /** Probability that a send arrives twice. */
  readonly duplicate: number
  /** Probability that the provider is down for a call. */
  readonly providerDown: number
  /** Probability that a message with rows arrives broken. */
  readonly poison: number
}

export type PipelineOptions = {
  readonly redis: Redis
  readonly cache: Redis
  readonly chaos: Chaos
  readonly faults: Faults
}

export type Pipeline = Awaited<ReturnType<typeof startPipeline>>

const ring = createKeyRing({
  KEY_RING: { 1: randomBytes(32).toString('base64') }, KEY_ACTIVE: '1',
})

/** All stages of the pipeline in one process, joined by a broker in memory that behaves badly. */
export async function startPipeline ({ redis, cache, chaos, faults }: PipelineOptions) {
  const stores = createStores()
  const codec = createCodec(localSource())
  const memory = createMemoryBus({
    seed: chaos.below(2 ** 31),
    duplicateSends: faults.duplicate,
    maxDelivery: 1 + chaos.below(6),
    partitionsOf: () => 2,
    onFatal: () => {},
  })
  const poison = createPoison({ bus: memory, codec, chaos, probability: faults.poison })
  const bus = { ...memory, ...poison.bus }
  const { keys, wire } = keysAndWire({ redis, ring, codec })
  const makers = stageMakers({ redis, cache, stores, codec, wire, chaos, faults })
  const keeper = createKeeper({ bus, wire, chaos, makers, crash: faults.crash })
  await keeper.startAll()
  return {
    bus,
    stores,
    codec,
    keys,
    wire,
    store: createJobStore(redis),
    poisoned: poison.poisoned,
    crashes: keeper.crashes,
    /** Resolves when nothing is left to do and no stage is about to be started again. */
    idle: async (): Promise<void> => {
      do await bus.idle()
      while (await keeper.settled())
    },
    /** From now on nothing goes wrong any more. */
    calm: () => {
      keeper.calm()
      poison.calm()
    },
    stop: async () => {
      await keeper.stop()
      await bus.close()
    },
  }
}
