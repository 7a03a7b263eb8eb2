import type { Redis } from 'ioredis'
import { sleep } from '../../services/platform/retry.ts'
import { createOutbox } from '../../services/money/outbox.ts'
import { createChaos } from './chaos.ts'
import { endAll } from './ending.ts'
import type { Told } from './evidence.ts'
import { fund } from './funding.ts'
import { startOperator, type Operator, type OperatorOptions } from './operator.ts'
import { startPipeline, type Faults } from './pipeline.ts'
import { sendAll } from './sending.ts'
import { submitterOn } from './submitter.ts'
import type { World } from './world.ts'

/** Connections of one run: that of whoever tells the story, and those the stages ask for. */
export type Setting = {
  readonly redis: Redis
  readonly cache: Redis
  readonly connect: World['connect']
  readonly subscriber: World['subscriber']
  readonly losses: World['losses']
}

const SHIPPED_EVERY_MS = 50

/**
 * One run: two tenants send jobs, some at the same time, while stages die before any effect, sends
 * arrive twice, the provider fails and the cache forgets. Afterwards everything is read again from
 * its beginning, and what was left over is swept up.
 */
export async function tell (seed: number, faults: Faults, setting: Setting): Promise<Told> {
  const { redis, cache, subscriber, losses } = setting
  const chaos = createChaos(seed)
  await Promise.all([redis.flushall(), cache.flushall()])
  const tenants = [`org_a${seed}.live`, `org_b${seed}.live`]
  const funded = await fund(redis, tenants, chaos)
  const pipeline = await startPipeline({ ...setting, chaos, faults })
  const operator = faults.stateLosses === 0
    ? undefined
    : await expectLosses({ ...setting, chaos, funded, pipeline }, seed, faults.stateLosses)
  // An accepted job that is never announced keeps its sender waiting for all that time.
  const patienceMs = faults.rot + faults.keyLoss > 0 ? 1_000 : 60_000
  const { options, stop } = await submitterOn({ pipeline, subscriber, seed, chaos, patienceMs })
  const losing = operator && (() => lossesSoFar(operator, losses))
  const requested = await sendAll(options, { seed, chaos, tenants, cache, losing })
  await endAll({ pipeline, operator, chaos, patienceMs })
  stop()
  return { seed, pipeline, tenants, funded, requested, ...lossesOf(operator, setting) }
}

/** From now on the Redis with the state may be lost: of what came before the journal has all. */
async function expectLosses (
  options: OperatorOptions & Pick<Setting, 'redis'>, seed: number, number: number
): Promise<Operator> {
  const operator = startOperator(options)
  const outbox = createOutbox(options.redis)
  while ((await outbox.tenantsWithPending()).length > 0) await sleep(SHIPPED_EVERY_MS)
  options.losses.plan(seed, number)
  return operator
}

function lossesSoFar (operator: Operator, { kinds }: World['losses']): number {
  operator.check()
  return kinds.length
}

const lossesOf = (operator: Operator | undefined, { losses }: Setting) => ({
  losses: losses.kinds,
  deaths: operator?.deaths() ?? 0,
  salvaged: operator?.salvaged() ?? [],
})
