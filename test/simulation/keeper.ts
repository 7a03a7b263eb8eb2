import type { Bus } from '../../services/kafka/bus.ts'
import { runStage, type FlushableStage } from '../../services/engine/engine.ts'
import { createLog } from '../../services/platform/log.ts'
import { subscriptionsOf } from '../../services/platform/topics.ts'
import type { MessageCodec } from '../../services/engine/message-codec.ts'
import type { Chaos } from './chaos.ts'
import { noMetrics } from './spared.ts'
import type { SimulatedStage, stageMakers } from './stages.ts'

/** Keeps stages running: one that dies is started again. */
export type Keeper = {
  readonly startAll: () => Promise<void>
  /** Resolves when no stage is about to be started again; true if one was. */
  readonly settled: () => Promise<boolean>
  /** Has every stage let go of what it holds for nothing; one that dies then is started again. */
  readonly release: () => Promise<void>
  readonly crashes: () => number
  /** From now on no stage dies any more. */
  readonly calm: () => void
  readonly stop: () => Promise<void>
}

export type KeeperOptions = {
  readonly bus: Bus
  readonly messageCodec: MessageCodec
  readonly chaos: Chaos
  readonly makers: ReturnType<typeof stageMakers>
  /** Probability that a stage dies before an effect. */
  readonly crash: number
}

/** A run that crashes for ever would never end; after so many the stages live on. */
const MAX_CRASHES = 40

/** Runs the stages of a pipeline, each as a process of its own that may die before any effect. */
export function createKeeper (options: KeeperOptions): Keeper {
  const running = new Map<SimulatedStage, FlushableStage>()
  const restarts = new Set<Promise<void>>()
  /** A process dies once, wherever else in it something is under way. */
  const dying = new Set<SimulatedStage>()
  /** One that dies while it is being started has to be stopped as well. */
  const starts = new Map<SimulatedStage, Promise<unknown>>()
  const start = async (name: SimulatedStage): Promise<void> => {
    const started = startStage(name, options, () => mayDie(name))
    starts.set(name, started)
    running.set(name, await started)
  }
  /** The process dies: what it remembers is gone, its partitions go to the one that follows. */
  const restartSoon = (name: SimulatedStage): void => {
    dying.add(name)
    const restart = new Promise<void>(resolve => setImmediate(resolve))
      .then(() => starts.get(name))
      .then(() => running.get(name)?.stop())
      .then(() => { dying.delete(name) })
      .then(() => start(name))
      .finally(() => restarts.delete(restart))
    restarts.add(restart)
  }
  let crashes = 0
  let isCalm = false
  const mayDie = (name: SimulatedStage): void => {
    if (dying.has(name)) throw new Error(`${name} is dead`)
    if (isCalm || crashes >= MAX_CRASHES || !options.chaos.happens(options.crash)) return
    crashes += 1
    restartSoon(name)
    throw new Error(`${name} dies here`)
  }
  const settled = () => settledOf(restarts)
  return {
    startAll: async () => {
      for (const name of Object.keys(options.makers) as SimulatedStage[]) await start(name)
    },
    settled,
    release: async () => {
      await Promise.allSettled([...running.values()].map(stage => stage.flushHeld()))
    },
    crashes: () => crashes,
    calm: () => { isCalm = true },
    stop: async () => {
      await settled()
      await Promise.all([...running.values()].map(stage => stage.stop()))
    },
  }
}

async function settledOf (restarts: ReadonlySet<Promise<void>>): Promise<boolean> {
  const wasRestarting = restarts.size > 0
  await Promise.all(restarts)
  return wasRestarting
}

const log = createLog('simulation', { level: 'silent' })
const metrics = noMetrics

async function startStage (
  name: SimulatedStage, { bus, messageCodec, chaos, makers }: KeeperOptions, mayDie: () => void
): Promise<FlushableStage> {
  return await runStage(makers[name] as never, {
    bus,
    messageCodec,
    metrics,
    log,
    subscriptions: subscriptionsOf(name, { services: ['phone-validation'] }),
    sleep: async () => {},
    // Whoever tells the story says when.
    flushHeldMs: 0,
    random: chaos.random,
    effects: { before: async () => mayDie() },
  })
}
