import type { Redis } from 'ioredis'
import { sleep } from '../../services/runtime/platform/retry.ts'
import { createOutbox } from '../../services/money/outbox.ts'
import { createChaos } from './chaos.ts'
import { endAll } from './ending.ts'
import type { ScenarioOutput } from './evidence.ts'
import { fund } from './funding.ts'
import { startRecovery, type Recovery, type RecoveryOptions } from './recovery.ts'
import { startPipeline, type Faults } from './pipeline.ts'
import { startTakeover } from './takeover.ts'
import { sendAll } from './sending.ts'
import { submitterOn } from './submitter.ts'
import type { Environment } from './environment.ts'

/** Connections of one run: that of the scenario, and those of the stages. */
export type Setting = {
  readonly redis: Redis
  readonly cache: Redis
  readonly connect: Environment['connect']
  readonly subscriber: Environment['subscriber']
  readonly losses: Environment['losses']
}

const SHIPPED_EVERY_MS = 50

/**
 * One run: two tenants send jobs, some concurrently, while stages crash before any effect, sends
 * arrive twice, the provider fails and the cache loses entries. Afterwards every topic is replayed
 * from its beginning.
 */
export async function runScenario (
  seed: number, faults: Faults, setting: Setting
): Promise<ScenarioOutput> {
  const { redis, cache, subscriber, losses } = setting
  const chaos = createChaos(seed)
  await Promise.all([redis.flushall(), cache.flushall()])
  const tenants = [`org_a${seed}.live`, `org_b${seed}.live`]
  const funded = await fund(redis, tenants, chaos)
  const pipeline = await startPipeline({ ...setting, chaos, faults })
  const recovery = faults.stateLosses === 0
    ? undefined
    : await expectLosses({ ...setting, chaos, funded, pipeline }, seed, faults.stateLosses)
  // An accepted job that is never announced keeps its sender waiting for all that time.
  const acceptWithinMs = faults.corruption + faults.keyLoss > 0 ? 1_000 : 60_000
  const { options, awaitRows, stop } =
    await submitterOn({ pipeline, subscriber, seed, chaos, acceptWithinMs })
  const losing = recovery && (() => lossesSoFar(recovery, losses))
  const isFaultFree = Object.values(faults).every(fault => fault === 0)
  const takingOver = isFaultFree
    ? startTakeover(pipeline, setting.connect('state', 'reaper'), tenants)
    : undefined
  const requested = await sendAll(options, { seed, chaos, tenants, cache, losing, awaitRows })
  const { repeats } = await endAll({ pipeline, recovery, chaos, acceptWithinMs })
  await takingOver?.stop()
  stop()
  return {
    seed,
    pipeline,
    tenants,
    funded,
    requested,
    repeats: isFaultFree ? repeats : [],
    ...lossesOf(recovery, setting),
  }
}

/** Plans losses of the state Redis once the journal has every entry written before. */
async function expectLosses (
  options: RecoveryOptions & Pick<Setting, 'redis'>, seed: number, number: number
): Promise<Recovery> {
  const recovery = startRecovery(options)
  const outbox = createOutbox(options.redis)
  while ((await outbox.tenantsWithPending()).length > 0) await sleep(SHIPPED_EVERY_MS)
  options.losses.plan(seed, number)
  return recovery
}

function lossesSoFar (recovery: Recovery, { kinds }: Environment['losses']): number {
  recovery.check()
  return kinds.length
}

const lossesOf = (recovery: Recovery | undefined, { losses }: Setting) => ({
  losses: losses.kinds,
  deaths: recovery?.deaths() ?? 0,
  salvaged: recovery?.salvaged() ?? [],
})
