import type { Evidence } from './evidence.ts'
import type { LossKind } from './state-loss.ts'
import { breachesOf } from './oracle.ts'
import type { Faults } from './pipeline.ts'
import { known } from './clients.ts'
import { takeOverAll } from './takeover.ts'
import { runScenario } from './scenario.ts'
import type { Environment } from './environment.ts'

/** The result of one seed. */
export type Run = {
  readonly seed: number
  /** One line for each violation of an invariant. */
  readonly breaches: readonly string[]
  readonly crashes: number
  readonly corrupted: number
  readonly lostKeys: number
  readonly calls: number
  /** Ends of the Redis with the state. */
  readonly losses: readonly LossKind[]
  /** Crashes of the leading ledger. */
  readonly deaths: number
  /** Movements that operators had to restore. */
  readonly salvaged: number
  /** The outcomes of the requests: accepted, refused. */
  readonly outcomes: readonly string[]
  /** Jobs that were cancelled when some of their rows had been checked, and others had not. */
  readonly cancelled: number
  /** Clients that got the rows of their job while they waited. */
  readonly verified: number
  /** Rows that clients got while their jobs ran. */
  readonly followed: number
  /** Topics of which a message was broken. */
  readonly broken: readonly string[]
  /** Two runs of a seed have the same. */
  readonly trace: string
}

/** A run without faults. */
export const NO_FAULTS: Faults = {
  crash: 0,
  duplicate: 0,
  providerDown: 0,
  hostBusy: 0,
  poison: 0,
  corruption: 0,
  keyLoss: 0,
  stateLosses: 0,
  growth: 0,
}

/** The faults of the run of a seed. */
function faultsOf (seed: number): Faults {
  return {
    // Every third run shows that no row is lost without broken messages.
    crash: 0.03,
    duplicate: 0.1,
    providerDown: 0.1,
    hostBusy: seed % 2 === 0 ? 0.2 : 0,
    poison: [0, 0.02, 0.15][seed % 3] ?? 0,
    // So does every fourth for corrupted chunks, and every fifth for lost keys.
    corruption: seed % 4 === 0 ? 0.5 : 0,
    keyLoss: seed % 5 === 0 ? 0.01 : 0,
    // Every fifth run loses its Redis, every tenth twice.
    stateLosses: seed % 5 === 3 ? 1 + Math.floor(seed % 10 / 5) : 0,
    // Every third run adds partitions while jobs are under way.
    growth: seed % 3 === 1 ? 1 + seed % 7 : 0,
  }
}

/** Runs one seed and checks every invariant. */
export async function runSeed (
  environment: Environment, seed: number, faults: Faults = faultsOf(seed)
): Promise<Run> {
  const run = await environment.run(seed, () => verified(environment, seed, faults))
  return { ...run, trace: environment.trace() }
}

async function verified (
  { connect, subscriber, losses }: Environment, seed: number, faults: Faults
): Promise<Omit<Run, 'trace'>> {
  const redis = connect('state', 'oracle')
  const output = await runScenario(seed, faults, {
    redis, cache: connect('cache', 'oracle'), connect, subscriber, losses,
  })
  try {
    await takeOverAll(output, redis)
    const evidence = { ...output, sent: await known(output) }
    return runOf(evidence, await breachesOf(evidence, redis))
  } finally {
    await output.pipeline.stop()
  }
}

function runOf (
  { seed, pipeline, sent, losses, deaths, salvaged }: Evidence, breaches: readonly string[]
): Omit<Run, 'trace'> {
  return {
    seed,
    breaches,
    crashes: pipeline.crashes(),
    corrupted: pipeline.corruption.corrupted.length,
    lostKeys: pipeline.corruption.lostKeys.size,
    calls: pipeline.observer.calls(),
    cancelled: pipeline.observer.cancelledBetween.size,
    losses,
    deaths,
    salvaged: salvaged.length,
    outcomes: [...new Set(sent.map(({ outcome }) => outcome.kind))],
    verified: sent.filter(({ verified }) => verified !== undefined).length,
    followed: sent.reduce((sum, { followed }) => sum + (followed?.rows.length ?? 0), 0),
    broken: [...new Set(pipeline.poisoned.map(({ topic }) => topic))],
  }
}
