import type { Bus } from '../../services/runtime/kafka/bus.ts'
import { type Attempts, createAttempts } from '../../services/runtime/engine/dead-letters.ts'
import { runStage, type FlushableStage } from '../../services/runtime/engine/engine.ts'
import { createLog } from '../../services/runtime/platform/log.ts'
import { listSubscriptions } from '../../services/runtime/platform/topics.ts'
import type { MessageCodec } from '../../services/runtime/engine/stage.ts'
import type { Chaos } from './chaos.ts'
import { noMetrics } from './stubs.ts'
import type { SimulatedStage, stageMakers } from './stages.ts'

/** Keeps stages running: restarts each one that crashes. */
export type Supervisor = {
  readonly startAll: () => Promise<void>
  /** Resolves when no stage is restarting; true if one was. */
  readonly settled: () => Promise<boolean>
  /** Flushes the messages that stages hold; restarts a stage that crashes meanwhile. */
  readonly release: () => Promise<void>
  readonly crashes: () => number
  /** No stage crashes from now on. */
  readonly stopFaults: () => void
  readonly stop: () => Promise<void>
}

export type SupervisorOptions = {
  readonly bus: Bus
  readonly messageCodec: MessageCodec
  readonly chaos: Chaos
  readonly makers: ReturnType<typeof stageMakers>
  /** Probability that a stage crashes before an effect. */
  readonly crash: number
}

/** Bounds the crashes of a run, so that it ends. */
const MAX_CRASHES = 40

/** Runs the stages of a pipeline as processes that may crash before any effect. */
export function createSupervisor (options: SupervisorOptions): Supervisor {
  const running = new Map<SimulatedStage, FlushableStage>()
  const restarts = new Set<Promise<void>>()
  /** A process crashes once, even with several effects in flight. */
  const dying = new Set<SimulatedStage>()
  /** A stage that crashes while it starts has to be stopped as well. */
  const starts = new Map<SimulatedStage, Promise<unknown>>()
  const texts = new Map<string, string>()
  /** The running process of each stage. */
  const processes = new Map<SimulatedStage, { hasFailed: boolean }>()
  const start = async (name: SimulatedStage): Promise<void> => {
    const process = { hasFailed: false }
    processes.set(name, process)
    const attempts = createAttempts({
      store: attemptStoreOf(texts, process),
      process: `${name} ${crashes}`,
      hasFailed: () => process.hasFailed,
      log,
    })
    const started = startStage(name, options, { attempts, mayDie: () => mayDie(name) })
    starts.set(name, started)
    running.set(name, await started)
  }
  /** A crash: the memory of the process is lost, its partitions go to the next one. */
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
  let isStopped = false
  const mayDie = (name: SimulatedStage): void => {
    if (dying.has(name)) throw new Error(`${name} is dead`)
    const process = processes.get(name)
    if (process === undefined) return
    if (isStopped || crashes >= MAX_CRASHES || !options.chaos.happens(options.crash)) return
    // A third crash at one message would make it poison: so many have that cause and no other.
    if (mayBlame(texts, name)) return
    crashes += 1
    process.hasFailed = true
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
    stopFaults: () => { isStopped = true },
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

/** The attempts at all partitions, which outlive every process; a dead one writes no more. */
function attemptStoreOf (
  texts: Map<string, string>, process: { readonly hasFailed: boolean }
): Parameters<typeof createAttempts>[0]['store'] {
  return {
    read: async partition => texts.get(partition),
    write: async (partition, text) => { if (!process.hasFailed) texts.set(partition, text) },
    remove: async partition => { if (!process.hasFailed) texts.delete(partition) },
  }
}

/** A message that ended its process so often while it was decided alone is set aside. */
const POISON_DEATHS = 3

/** Whether a further crash of a stage would set the message aside that it decides alone. */
export function mayBlame (texts: ReadonlyMap<string, string>, stage: string): boolean {
  return [...texts].some(([partition, text]) => {
    const { suspect = '', deaths } = JSON.parse(text) as {
      readonly suspect?: string, readonly deaths: Readonly<Record<string, number>>
    }
    return partition.startsWith(stage) && (deaths[suspect] ?? 0) >= POISON_DEATHS - 1
  })
}

const log = createLog('simulation', { level: 'silent' })
const metrics = noMetrics

async function startStage (
  name: SimulatedStage, { bus, messageCodec, chaos, makers }: SupervisorOptions,
  { attempts, mayDie }: { readonly attempts: Attempts, readonly mayDie: () => void }
): Promise<FlushableStage> {
  return await runStage(makers[name] as never, {
    bus,
    messageCodec,
    metrics,
    log,
    subscriptions: listSubscriptions(name, { services: ['phone-validation'] }),
    sleep: async () => {},
    // The pipeline flushes explicitly.
    flushHeldMs: 0,
    random: chaos.random,
    attempts,
    effects: { before: async () => mayDie() },
  })
}
