import type { Redis } from 'ioredis'
import { randomBytes } from 'node:crypto'
import { createJobStore } from '../../services/jobs/store.ts'
import type { RunningStage } from '../../services/lib/engine.ts'
import { runStage } from '../../services/lib/engine.ts'
import { createKeyRing } from '../../services/lib/key-ring.ts'
import { createLog } from '../../services/lib/log.ts'
import { createMetrics } from '../../services/lib/metrics.ts'
import { createCodec, localSource } from '../../services/lib/registry.ts'
import { subscriptionsOf } from '../../services/lib/topics.ts'
import { createMemoryBus } from '../support/memory-bus.ts'
import type { Chaos } from './chaos.ts'
import { stageMakers, type SimulatedStage } from './stages.ts'
import { createStores } from './stores.ts'
import { keysAndWire } from './wiring.ts'

export type Faults = {
  /** Probability that a stage dies before an effect. */
  readonly crash: number
  /** Probability that a send arrives twice. */
  readonly duplicate: number
  /** Probability that the provider is down for a call. */
  readonly providerDown: number
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
/** A run that crashes for ever would never end; after so many the stages live on. */
const MOST_CRASHES = 40

/** All stages of the pipeline in one process, joined by a broker in memory that behaves badly. */
export async function startPipeline ({ redis, cache, chaos, faults }: PipelineOptions) {
  const stores = createStores()
  const codec = createCodec(localSource())
  const { keys, wire } = keysAndWire({ redis, ring, codec })
  const log = createLog('simulation', { level: 'silent' })
  const metrics = createMetrics()
  const bus = createMemoryBus({
    seed: chaos.below(2 ** 31),
    duplicateSends: faults.duplicate,
    maxDelivery: 1 + chaos.below(6),
    partitionsOf: () => 2,
    onFatal: () => {},
  })
  const makers = stageMakers({ redis, cache, stores, codec, wire, chaos, faults })
  const running = new Map<SimulatedStage, RunningStage>()
  const restarts = new Set<Promise<void>>()
  let crashes = 0

  const start = async (name: SimulatedStage): Promise<void> => {
    running.set(name, await runStage(makers[name] as never, {
      bus,
      wire,
      metrics,
      log,
      subscriptions: subscriptionsOf(name, { services: ['phone-validation'] }),
      sleep: async () => {},
      random: chaos.random,
      effects: {
        before: async () => {
          if (crashes >= MOST_CRASHES || !chaos.happens(faults.crash)) return
          crashes += 1
          restartSoon(name)
          throw new Error(`${name} dies here`)
        },
      },
    }))
  }

  /** The process dies: what it remembers is gone, its partitions go to the one that follows. */
  const restartSoon = (name: SimulatedStage): void => {
    const old = running.get(name)
    const restart = new Promise<void>(resolve => setImmediate(resolve))
      .then(() => old?.stop())
      .then(() => start(name))
      .finally(() => restarts.delete(restart))
    restarts.add(restart)
  }

  for (const name of Object.keys(makers) as SimulatedStage[]) await start(name)

  /** Resolves when nothing is left to do and no stage is about to be started again. */
  const idle = async (): Promise<void> => {
    do {
      await Promise.all(restarts)
      await bus.idle()
    } while (restarts.size > 0)
  }

  return {
    bus,
    stores,
    codec,
    keys,
    wire,
    store: createJobStore(redis),
    idle,
    crashes: () => crashes,
    /** From now on nothing goes wrong any more. */
    calm: () => { crashes = MOST_CRASHES },
    restart: async (name: SimulatedStage) => {
      restartSoon(name)
      await Promise.all(restarts)
    },
    stop: async () => {
      await Promise.all(restarts)
      await Promise.all([...running.values()].map(stage => stage.stop()))
      await bus.close()
    },
  }
}
