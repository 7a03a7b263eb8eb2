import { beforeEach, describe, expect, it } from 'vitest'
import type { Attempt } from '../../services/webhooks/deliveries.ts'
import { eventIdOf } from '../../services/webhooks/event.ts'
import { jobKeys } from '../../services/jobs/redis-keys.ts'
import { moneyKeys } from '../../services/money/redis-keys.ts'
import { republish } from '../../services/ledger/restore-deliveries.ts'
import { acceptClaimed, acceptRequest, bindingOf, jobClaim } from '../support/jobs.ts'
import { startLockedRedis } from '../support/redis/redis.ts'
import { unlockAll } from '../support/redis/unlock.ts'
import { endRun, putBack, snapshotOf } from '../support/redis/content.ts'
import { createScenario, type Scenario } from '../support/recovery/recovery-scenario.ts'
import { createRecoveryEnvironment, runLedger } from '../support/recovery/recovery-environment.ts'
import { deliveryAttempt } from '../support/webhooks/deliveries.ts'

const { redis } = await startLockedRedis()
const TENANT = 'org_a.live'
const KEY = '0b2f0b86-6a3f-4f0e-9a44-6f3f6b0d3a01'

let environment: ReturnType<typeof createRecoveryEnvironment>
let scenario: Scenario
beforeEach(async () => {
  await redis.flushall()
  environment = createRecoveryEnvironment(redis)
  scenario = createScenario(redis, environment, TENANT)
  await unlockAll(redis, [TENANT])
  await scenario.act({ do: 'topUp', id: 1, micros: 9_000 })
})

const slots = () => redis.hget(moneyKeys(TENANT).wallet, 'slots')

const tally = { do: 'tally', unknown: [], inputs: true, late: false } as const

/** A job of 10 rows, 2 of which are charged, that has come to its end. */
async function settled (id: string): Promise<void> {
  await scenario.accept(id, 100)
  await scenario.act({ ...tally, job: id, live: [0, 1] })
  await scenario.finish(id)
}

describe('a job that has ended and is not archived', () => {
  it('is counted to its end again, and its money moves once', async () => {
    await settled('job_1')
    await scenario.ship(false)
    const before = await scenario.wallet.balance(TENANT)
    const blocks = (await scenario.store.readWithManifest(TENANT, 'job_1'))!.manifest
    expect(before).toMatchObject({ chargedMicros: 200, reservedMicros: 0, seq: 3 })
    await redis.flushall()
    await runLedger(environment.deps)
    expect(await scenario.wallet.balance(TENANT)).toEqual(before)
    expect((await scenario.store.readWithManifest(TENANT, 'job_1'))!.manifest).toEqual(blocks)
    expect(await scenario.store.read(TENANT, 'job_1')).toMatchObject({
      status: 'completed', ended: true, closed: false, chargedMicros: 200, releasedMicros: 800,
    })
    expect(await scenario.outbox.pending(TENANT)).toEqual([])
    // The process that closes ended jobs finds it, and archives it.
    await scenario.archive('job_1', true)
    const archived = await environment.deps.archive.findAll([TENANT], ['job_1'])
    expect(archived.get('job_1')).toMatchObject({
      id: 'job_1', chargedMicros: 200, counts: { freshRecords: 2, finishedRows: 10 },
    })
    expect((await scenario.store.read(TENANT, 'job_1'))?.closed).toBe(true)
  })

  it.each([
    ['nothing', false], ['an old file', true],
  ])('keeps its charge in a Redis with %s though it failed at first', async (_, hasFile) => {
    await scenario.accept('job_1', 100)
    const old = hasFile ? await snapshotOf(redis) : []
    await scenario.act({ ...tally, job: 'job_1', live: [0, 1, 2] })
    await scenario.act({ do: 'fail', job: 'job_1' })
    await scenario.ship(false)
    await putBack(redis, old)
    await runLedger(environment.deps)
    expect(await scenario.store.read(TENANT, 'job_1')).toMatchObject({
      ended: false, counts: { finishedRows: 3 },
    })
    expect(await slots()).toBe('0')
    await scenario.act({ do: 'fail', job: 'job_1' })
    expect(await scenario.store.read(TENANT, 'job_1')).toMatchObject({
      status: 'failed', chargedMicros: 300, releasedMicros: 700,
    })
    expect(await scenario.wallet.balance(TENANT)).toMatchObject({ chargedMicros: 300, seq: 3 })
  })
})

describe('a job that is archived', () => {
  const attempt = (outcome: Attempt['outcome']) => deliveryAttempt({
    tenant: TENANT, job: 'job_1', event: eventIdOf('job_1', 'job.completed'), outcome,
  })

  it.each([
    ['delivered', 'not again', 0], ['exhausted', 'not again', 0], ['failed', 'once more', 1],
    ['nowhere', 'once more', 1],
  ] as const)('whose event was %s is back, and announced %s', async (outcome, _, times) => {
    await settled('job_1')
    await scenario.archive('job_1', true)
    const before = await scenario.store.read(TENANT, 'job_1')
    const events = () => new Set(environment.bus.messages('jobs.settled').map(({ value }) =>
      value!.toString('hex')))
    const announced = environment.bus.messages('jobs.settled').length
    if (outcome !== 'nowhere') environment.attempts.push(attempt(outcome))
    await redis.flushall()
    await runLedger(environment.deps)
    expect(await scenario.store.read(TENANT, 'job_1'))
      .toEqual({ ...before, updatedAtMs: expect.any(Number) as number })
    expect([await scenario.store.openJobs(TENANT), await slots()]).toEqual([[], '0'])
    expect(await redis.pttl(jobKeys(TENANT, 'job_1').job)).toBeLessThanOrEqual(600_000)
    // The bus may bring a message twice; the repetition says the same.
    expect(Math.sign(environment.bus.messages('jobs.settled').length - announced)).toBe(times)
    expect(events().size).toBe(1)
  })

  it('and that Redis has forgotten since is neither restored nor announced again', async () => {
    await settled('job_1')
    await scenario.archive('job_1', true)
    await scenario.ship(false)
    await redis.del(jobKeys(TENANT, 'job_1').job)
    const announced = environment.bus.messages('jobs.settled').length
    await endRun(redis)
    await runLedger(environment.deps)
    expect(await scenario.store.read(TENANT, 'job_1')).toBeUndefined()
    expect(environment.bus.messages('jobs.settled')).toHaveLength(announced)
  })

  it('that has not ended has no event', async () => {
    await scenario.accept('job_1', 100)
    await republish(environment.deps, [(await scenario.store.read(TENANT, 'job_1'))!])
    expect(environment.bus.messages('jobs.settled')).toEqual([])
  })
})

describe('a request', () => {
  const claim = (job: string, fingerprint = 'f') =>
    scenario.store.claim(TENANT, jobClaim(job, { idempotencyKey: KEY, fingerprint }))

  it.each([['runs', false], ['is archived', true]])(
    'is answered with its job, which %s, when it is sent again', async (_, isArchived) => {
      await claim('job_1')
      await acceptClaimed(scenario.store, TENANT, acceptRequest('job_1', {
        idempotencyKey: KEY, unitPriceMicros: 100,
      }))
      if (isArchived) {
        await scenario.finish('job_1')
        await scenario.archive('job_1', true)
      }
      await scenario.ship(false)
      const before = await bindingOf(redis, TENANT, KEY)
      await redis.flushall()
      await runLedger(environment.deps)
      expect(await claim('job_2')).toMatchObject({ kind: 'same', job: 'job_1' })
      expect(await bindingOf(redis, TENANT, KEY)).toEqual(before)
      expect(await slots()).toBe(isArchived ? '0' : '1')
      expect(await claim('job_2', 'g')).toEqual({ kind: 'reused' })
    })
})
