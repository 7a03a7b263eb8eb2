import type { Evidence } from './evidence.ts'
import type { LossKind } from './loss-plan.ts'
import { breachesOf } from './oracle.ts'
import type { Faults } from './pipeline.ts'
import { known } from './requests.ts'
import { sweepUp } from './sweeping.ts'
import { tell } from './story.ts'
import type { World } from './world.ts'

/** What one seed came to. */
export type Run = {
  readonly seed: number
  /** One line for each violation of an invariant. */
  readonly breaches: readonly string[]
  readonly crashes: number
  readonly rotten: number
  readonly lostKeys: number
  readonly calls: number
  /** Ends of the Redis with the state. */
  readonly losses: readonly LossKind[]
  /** Deaths of the ledger that leads. */
  readonly deaths: number
  /** Movements that people had to save. */
  readonly salvaged: number
  /** What became of the requests: accepted, refused. */
  readonly outcomes: readonly string[]
  /** Topics of which a message was broken. */
  readonly broken: readonly string[]
  /** Two runs of a seed have the same. */
  readonly trace: string
}

/** All is well. */
export const NO_FAULTS: Faults = {
  crash: 0, duplicate: 0, providerDown: 0, poison: 0, rot: 0, keyLoss: 0, stateLosses: 0,
}

/** What goes wrong in the run of a seed. */
export function faultsOf (seed: number): Faults {
  return {
    // Every third run shows that without broken messages no row is lost to a fault of ours.
    crash: 0.03,
    duplicate: 0.1,
    providerDown: 0.1,
    poison: [0, 0.02, 0.15][seed % 3] ?? 0,
    // So does every fourth for chunks that rot, and every fifth for keys that get lost.
    rot: seed % 4 === 0 ? 0.5 : 0,
    keyLoss: seed % 5 === 0 ? 0.01 : 0,
    // Every fifth run loses its Redis, every tenth twice.
    stateLosses: seed % 5 === 3 ? 1 + Math.floor(seed % 10 / 5) : 0,
  }
}

/** Runs one seed and checks every invariant. */
export async function runSeed (
  world: World, seed: number, faults: Faults = faultsOf(seed)
): Promise<Run> {
  const run = await world.run(seed, () => judged(world, seed, faults))
  return { ...run, trace: world.trace() }
}

async function judged (
  { connect, subscriber, losses }: World, seed: number, faults: Faults
): Promise<Omit<Run, 'trace'>> {
  const redis = connect('state', 'oracle')
  const told = await tell(seed, faults, {
    redis, cache: connect('cache', 'oracle'), connect, subscriber, losses,
  })
  try {
    await sweepUp(told, redis)
    const evidence = { ...told, sent: await known(told) }
    return runOf(evidence, await breachesOf(evidence, redis))
  } finally {
    await told.pipeline.stop()
  }
}

function runOf (
  { seed, pipeline, sent, losses, deaths, salvaged }: Evidence, breaches: readonly string[]
): Omit<Run, 'trace'> {
  return {
    seed,
    breaches,
    crashes: pipeline.crashes(),
    rotten: pipeline.rot.rotten.length,
    lostKeys: pipeline.rot.lostKeys.size,
    calls: pipeline.witness.calls(),
    losses,
    deaths,
    salvaged: salvaged.length,
    outcomes: [...new Set(sent.map(({ outcome }) => outcome.kind))],
    broken: [...new Set(pipeline.poisoned.map(({ topic }) => topic))],
  }
}
