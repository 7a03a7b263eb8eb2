import type { Bus } from '../../services/lib/bus.ts'
import { runStage, type RunningStage } from '../../services/lib/engine.ts'
import { createLog } from '../../services/lib/log.ts'
import { createMetrics } from '../../services/lib/metrics.ts'
import { subscriptionsOf } from '../../services/lib/topics.ts'
import type { Wire } from '../../services/lib/wire.ts'
import type { Chaos } from './chaos.ts'
import type { SimulatedStage, stageMakers } from './stages.ts'

/** Keeps stages running: one that dies is started again. */
export type Keeper = {
  readonly startAll: () => Promise<void>
  /** Resolves when no stage is about to be started again; true if one was. */
  readonly settled: () => Promise<boolean>
  readonly crashes: () => number
  /** From now on no stage dies any more. */
  readonly calm: () => void
  readonly stop: () => Promise<void>
}

export type KeeperOptions = {
  readonly bus: Bus
  readonly wire: Wire
  readonly chaos: Chaos
  readonly makers: ReturnType<typeof stageMakers>
  /** Probability that a stage dies before an effect. */
  readonly crash: number
}

/** A run that crashes for ever would never end; after so many the stages live on. */
const MOST_CRASHES = 40

/** Runs the stages of a pipeline, each as a process of its own that may die before any effect. */
export function createKeeper (options: KeeperOptions): Keeper {
  const running = new Map<SimulatedStage, RunningStage>()
  const restarts = new Set<Promise<void>>()
  const start = async (name: SimulatedStage): Promise<void> => {
    running.set(name, await startStage(name, options, () => mayDie(name)))
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
  let crashes = 0
  let isCalm = false
  const mayDie = (name: SimulatedStage): void => {
    if (isCalm || crashes >= MOST_CRASHES || !options.chaos.happens(options.crash)) return
    crashes += 1
    restartSoon(name)
    throw new Error(`${name} dies here`)
  }
  const settled = async (): Promise<boolean> => {
    const wasRestarting = restarts.size > 0
    await Promise.all(restarts)
    return wasRestarting
  }
  return {
    startAll: async () => {
      for (const name of Object.keys(options.makers) as SimulatedStage[]) await start(name)
    },
    settled,
    crashes: () => crashes,
    calm: () => { isCalm = true },
    stop: async () => {
      await settled()
      await Promise.all([...running.values()].map(stage => stage.stop()))
    },
  }
}

const log = createLog('simulation', { level: 'silent' })
const metrics = createMetrics()

async function startStage (
  name: SimulatedStage, { bus, wire, chaos, makers }: KeeperOptions, mayDie: () => void
): Promise<RunningStage> {
  return await runStage(makers[name] as never, {
    bus,
    wire,
    metrics,
    log,
    subscriptions: subscriptionsOf(name, { services: ['phone-validation'] }),
    sleep: async () => {},
    random: chaos.random,
    effects: { before: async () => mayDie() },
  })
}
