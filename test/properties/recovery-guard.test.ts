import { beforeEach, describe, expect, it } from 'vitest'
import { createJobStore } from '../../services/jobs/store.ts'
import { moneyKeys, LOCKED_TENANTS_CHANNEL } from '../../services/money/redis-keys.ts'
import { createWallet } from '../../services/money/wallet.ts'
import { eventually } from '../support/eventually.ts'
import { acceptRequest, blockOf, jobClaim, upTo } from '../support/jobs.ts'
import { contentOf } from '../support/redis/content.ts'
import { createScenario } from '../support/recovery/recovery-scenario.ts'
import {
  createRecoveryEnvironment, runLedger, type RecoveryEnvironment,
} from '../support/recovery/recovery-environment.ts'
import { startRestartableRedis } from '../support/redis/redis.ts'

const { redis, connect, restart, runOf } = await startRestartableRedis()
const TENANT = 'org_a.live'
const LOCKED = /the wallet of org_a.live is locked/

let environment: RecoveryEnvironment
beforeEach(async () => {
  await redis.flushall()
  environment = createRecoveryEnvironment(redis)
})

/** All that a store does to a job, by name. */
function callsOf (store: ReturnType<typeof createJobStore>) {
  const block = blockOf({ job: 'job_1', chunkRows: 10, inputs: true }, { live: [0] })
  return {
    claim: () => store.claim(TENANT, jobClaim('job_2', { idempotencyKey: 'k' })),
    accept: () => store.accept(TENANT, acceptRequest('job_2', { unitPriceMicros: 1 })),
    refuse: () => store.refuse(TENANT, 'job_2', 'internal'),
    announce: () => store.announce(TENANT, 'job_1'),
    cancel: () => store.cancel(TENANT, 'job_1'),
    tally: () => store.tally(TENANT, block),
    tallyAll: () => store.tallyAll(TENANT, [block]),
    end: () => store.end(TENANT, 'job_1'),
    close: () => store.close(TENANT, 'job_1'),
    fail: () => store.fail(TENANT, 'job_1', {
      digest: 'f'.repeat(64), finished: Buffer.from([255, 3]),
    }),
  }
}

/** What reads, and what concerns no money. */
const FREE = [
  'outcome', 'read', 'readWithManifest', 'batchAction', 'openJobs', 'unfinishedRows', 'waitingRows',
  'recordWaiting',
]

describe('after a restart of the server', () => {
  it('no script changes anything until the tenant was compared', async () => {
    const scenario = createScenario(redis, environment, TENANT)
    await runLedger(environment.deps)
    await scenario.wallet.unlockNew(TENANT)
    await scenario.act({ do: 'topUp', id: 1, micros: 5_000 })
    await scenario.accept('job_1', 100)
    await scenario.ship(false)
    const [before, run] = [await contentOf(redis), await runOf()]
    await restart()
    expect(await runOf()).not.toBe(run)
    const calls = callsOf(scenario.store)
    expect(Object.keys(calls).toSorted())
      .toEqual(Object.keys(scenario.store).filter(name => !FREE.includes(name)).toSorted())
    const answers = await Promise.allSettled(Object.values(calls).map(call => call()))
    const refused = Object.keys(calls).filter((_, index) => {
      const answer = answers[index]!
      return answer.status === 'rejected' && LOCKED.test(String(answer.reason))
    })
    expect(refused).toEqual(Object.keys(calls))
    // Reads of an existing job return it; a missing one may be a loss.
    for (const read of ['outcome', 'read', 'readWithManifest', 'batchAction'] as const) {
      await expect(scenario.store[read](TENANT, 'job_lost')).rejects.toThrow(LOCKED)
    }
    // A tenant that was unlocked before must have been unlocked by a ledger.
    await scenario.wallet.unlockNew(TENANT)
    expect(await contentOf(redis)).toEqual(before)
    expect(await redis.hget(moneyKeys(TENANT).wallet, 'run')).toBe(run)
    expect((await scenario.store.read(TENANT, 'job_1'))?.status).toBe('queued')

    await runLedger(environment.deps)
    expect(await redis.hget(moneyKeys(TENANT).wallet, 'run')).toBe(await runOf())
    const claim = jobClaim('job_2', { idempotencyKey: 'k' })
    expect((await scenario.store.claim(TENANT, claim)).kind).toBe('new')
  })

  it('no job comes from a claim made before it, as its refusal may be lost', async () => {
    const { store, wallet, act } = createScenario(redis, environment, TENANT)
    await runLedger(environment.deps)
    await wallet.unlockNew(TENANT)
    await act({ do: 'topUp', id: 1, micros: 5_000 })
    const request = (id: string) => acceptRequest(id, { unitPriceMicros: 0 })
    await store.claim(TENANT, jobClaim('job_1'))
    await restart()
    await runLedger(environment.deps)
    const refused = { kind: 'refused', refusal: { code: 'expired' } }
    expect(await store.accept(TENANT, request('job_1'))).toEqual(refused)
    expect(await store.accept(TENANT, request('job_2'))).toEqual(refused)
    await store.claim(TENANT, jobClaim('job_3'))
    expect((await store.accept(TENANT, request('job_3'))).kind).toBe('accepted')
  })

  it('a master that leads again moves no money, and drops no message', async () => {
    const { store, wallet, act, accept } = createScenario(redis, environment, TENANT)
    await runLedger(environment.deps)
    await wallet.unlockNew(TENANT)
    await act({ do: 'topUp', id: 1, micros: 5_000 })
    await accept('job_1', 100)
    await store.claim(TENANT, jobClaim('job_2'))
    // The ledger of another master has let the tenant in; what it accepted or ended may be lost.
    await redis.hset(moneyKeys(TENANT).wallet, 'run', 'f'.repeat(40))
    const before = await wallet.balance(TENANT)
    const block = (job: string, live: number) =>
      blockOf({ job, chunkRows: 10, inputs: true }, { live: upTo(live) })
    const calls = [
      () => store.tally(TENANT, block('job_1', 10)),
      () => store.tally(TENANT, { ...block('job_1', 1), replacesLost: true }),
      () => store.tally(TENANT, block('job_2', 1)),
      () => store.announce(TENANT, 'job_2'),
      () => store.close(TENANT, 'job_2'),
    ]
    for (const call of calls) await expect(call()).rejects.toThrow(LOCKED)
    expect(await wallet.balance(TENANT)).toEqual(before)
    expect((await store.read(TENANT, 'job_1'))?.counts.finishedRows).toBe(0)
  })

  it.each(['topUp', 'adjust'] as const)('%s waits for unlocking, then moves once', async move => {
    const heard: string[] = []
    const listener = connect()
    listener.on('message', (_channel, tenant: string) => { heard.push(tenant) })
    await listener.subscribe(LOCKED_TENANTS_CHANNEL)
    const wallet = createWallet(redis)
    const moving = wallet[move](TENANT, { id: 'a', amountMicros: 7, reason: '' })
    await eventually(() => expect(heard).toContain(TENANT))
    expect((await wallet.balance(TENANT)).seq).toBe(0)
    await runLedger(environment.deps)
    expect((await moving).kind).toBe('posted')
    expect(await wallet.balance(TENANT)).toMatchObject({ availableMicros: 7, seq: 1 })
  })
})
