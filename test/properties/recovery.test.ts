import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Journal } from '../../schemas/types.ts'
import { jobRedisKeys } from '../../services/jobs/job-record.ts'
import { createRecoveryStore } from '../../services/ledger/recovery-store.ts'
import {
  ACTIVE_KEY, RECOUNTING_KEY, TENANTS_KEY, moneyKeys,
} from '../../services/money/redis-keys.ts'
import { startLockedRedis } from '../support/redis/redis.ts'
import { unlockAll } from '../support/redis/unlock.ts'
import { contentOf, endRun, putBack, snapshotOf, type Snapshot } from '../support/redis/content.ts'
import {
  action, chargesOf, createScenario, FUNDS, type Scenario,
} from '../support/recovery/recovery-scenario.ts'
import {
  compareAll, countMarked, createRecoveryEnvironment, entriesOf, runLedger,
  type RecoveryEnvironment,
} from '../support/recovery/recovery-environment.ts'

const { redis } = await startLockedRedis()
const TENANT = 'org_a.live'
const NOTHING = { availableMicros: 0, reservedMicros: 0, chargedMicros: 0, fundedMicros: 0, seq: 0 }

const plan = fc.record({ seed: fc.nat(), steps: fc.array(action, { minLength: 5, maxLength: 40 }) })
/** How much of it happens before the moment that an old file knows, in a hundred. */
const share = fc.integer({ min: 0, max: 100 })

async function begin (seed: number) {
  await redis.flushall()
  const environment = createRecoveryEnvironment(redis, seed)
  const scenario = createScenario(redis, environment, TENANT)
  await unlockAll(redis, [TENANT])
  await scenario.act(FUNDS)
  return { environment, scenario }
}

const balanceAfter = (entry: Journal | undefined) => entry === undefined
  ? NOTHING
  : {
      availableMicros: entry.availableMicros,
      reservedMicros: entry.reservedMicros,
      chargedMicros: entry.chargedMicros,
      fundedMicros: entry.fundedMicros,
      seq: entry.seq,
    }

/** What is restored, and its outcome: all of it derived from the entries alone. */
async function checkRecovered (
  environment: RecoveryEnvironment, scenario: Scenario, entries: readonly Journal[]
): Promise<void> {
  const before = balanceAfter(entries.at(-1))
  const ends = new Set(entries.filter(({ type }) => ['settle', 'void'].includes(type))
    .map(({ job }) => job))
  const charges = await chargesOf(environment, TENANT, entries)
  await compareAll(environment.deps)
  expect(await redis.hget(moneyKeys(TENANT).wallet, 'frozen')).toBe(null)
  expect(await scenario.wallet.balance(TENANT)).toEqual(before)
  expect(await runningIn(scenario))
    .toEqual([...charges.keys()].filter(id => !ends.has(id)).toSorted())
  await countMarked(environment.deps)
  expect(await redis.exists(RECOUNTING_KEY, moneyKeys(TENANT).recounts)).toBe(0)
  await scenario.endAll()
  for (const [id, chargedMicros] of charges) {
    const job = await scenario.store.read(TENANT, id)
    expect([id, job?.ended, job?.chargedMicros]).toEqual([id, true, chargedMicros])
    expect(job?.header.toString()).toBe(id)
  }
  const chargedMicros = [...charges.values()].reduce((sum, charge) => sum + charge, 0)
  expect(await scenario.wallet.balance(TENANT)).toEqual({
    availableMicros: before.fundedMicros - chargedMicros,
    reservedMicros: 0,
    chargedMicros,
    fundedMicros: before.fundedMicros,
    seq: before.seq + charges.size - ends.size,
  })
  expect(await redis.hget(moneyKeys(TENANT).wallet, 'slots')).toBe('0')
  const { kind } = await createRecoveryStore(redis).check(TENANT)
  expect(['ok', 'idle']).toContain(kind)
}

/** Jobs whose money is reserved. */
async function runningIn (scenario: Scenario): Promise<readonly string[]> {
  const open = await scenario.store.openJobs(TENANT)
  const records = await Promise.all(open.map(async ({ job }) => {
    const record = jobRedisKeys(TENANT, job).job
    return [job, ...await redis.hmget(record, 'ended', 'journaledSettleSeq')] as const
  }))
  return records.filter(([, ended, settled]) => ended === '0' && settled === null)
    .map(([job]) => job).toSorted()
}

describe('after any sequence of operations', () => {
  it('an empty Redis is restored to the end of the journal', async () => {
    await fc.assert(fc.asyncProperty(plan, async ({ seed, steps }) => {
      const { environment, scenario } = await begin(seed)
      for (const step of steps) await scenario.act(step)
      await redis.flushall()
      const entries = await entriesOf(environment, TENANT)
      if (entries.length === 0) return
      await checkRecovered(environment, scenario, entries)
      expect(environment.pauses).toEqual([7])
    }), { numRuns: 80 })
  })

  it('a Redis with an old file is restored to it as well', async () => {
    await fc.assert(fc.asyncProperty(plan, share, async ({ seed, steps }, percent) => {
      const { environment, scenario } = await begin(seed)
      const cut = Math.floor(steps.length * percent / 100)
      for (const step of steps.slice(0, cut)) await scenario.act(step)
      const old: Snapshot = await snapshotOf(redis)
      for (const step of steps.slice(cut)) await scenario.act(step)
      await putBack(redis, old)
      const entries = await entriesOf(environment, TENANT, await scenario.outbox.pending(TENANT))
      await checkRecovered(environment, scenario, entries)
    }), { numRuns: 80 })
  })

  it('a Redis that lost nothing is unlocked as it is', async () => {
    await fc.assert(fc.asyncProperty(plan, async ({ seed, steps }) => {
      const { environment, scenario } = await begin(seed)
      for (const step of steps) {
        await scenario.act(step.do === 'tally' ? { ...step, late: false } : step)
      }
      const before = await contentOf(redis)
      await endRun(redis)
      const entries = await entriesOf(environment, TENANT, await scenario.outbox.pending(TENANT))
      await runLedger(environment.deps)
      expect(await contentOf(redis)).toEqual(before)
      expect(await redis.hexists(moneyKeys(TENANT).wallet, 'frozen')).toBe(0)
      // That something was lost would not show until it arrives; nothing is made.
      expect(environment.pauses).toEqual([7])
      expect(environment.counted['job']).toBe(undefined)
      await endRun(redis)
      await checkRecovered(environment, scenario, entries)
    }), { numRuns: 60 })
  })
})

describe('the set of all tenants', () => {
  it('may be lost while their wallets are not', async () => {
    const { environment, scenario } = await begin(1)
    await scenario.accept('job_1', 100)
    await scenario.ship(false)
    const before = await contentOf(redis)
    await redis.del(TENANTS_KEY)
    await endRun(redis)
    await runLedger(environment.deps)
    expect(await redis.hget(moneyKeys(TENANT).wallet, 'frozen')).toBe(null)
    expect(await contentOf(redis)).toEqual(before)
    expect(before[TENANTS_KEY]).toEqual([TENANT])
  })

  it('may be lost while nothing is under way', async () => {
    const { environment, scenario } = await begin(1)
    await scenario.ship(false)
    await redis.del(TENANTS_KEY, ACTIVE_KEY)
    await endRun(redis)
    await runLedger(environment.deps)
    expect(await redis.smembers(TENANTS_KEY)).toEqual([TENANT])
  })
})
