import { beforeEach, describe, expect, it } from 'vitest'
import { ACTIVE_KEY, TENANTS_KEY } from '../../services/money/redis-keys.ts'
import {
  createMarkActive, createOutbox, createTenants, createWallet, IDLE_AFTER_MS, MARK_LASTS_MS,
} from '../../services/money/wallet.ts'
import { createJobStore } from '../../services/jobs/store.ts'
import { createRecoveryStore } from '../../services/ledger/recovery-store.ts'
import { accepted, acceptRequest, blockOf, upTo } from '../support/jobs.ts'
import { startRedis } from '../support/redis/redis.ts'

const { redis, connect } = await startRedis()
const tenants = createTenants(redis)
const names = async () => (await tenants.active()).map(({ tenant }) => tenant)
beforeEach(() => redis.flushall())

describe('an active tenant', () => {
  it('is one of all tenants, however many are marked at once', async () => {
    const many = upTo(1_200).map(number => `org_${number}.live`)
    await tenants.activate(many)
    expect((await names()).toSorted()).toEqual(many.toSorted())
    expect((await tenants.all()).toSorted()).toEqual(many.toSorted())
  })

  it('is made by a mark, not by being added to all', async () => {
    const many = upTo(1_200).map(number => `org_${number}.live`)
    await tenants.add(many)
    expect((await tenants.all()).toSorted()).toEqual(many.toSorted())
    expect(await names()).toEqual([])
  })

  it('loses its mark, unless it was marked again since, and stays one of all', async () => {
    await tenants.activate(['a.live', 'b.live'])
    const before = await tenants.active()
    await redis.zadd(ACTIVE_KEY, String(Date.now() + 5_000), 'b.live')
    for (const one of before) await tenants.deactivate(one)
    expect(await names()).toEqual(['b.live'])
    expect(await tenants.all()).toHaveLength(2)
  })

  it('is marked once a minute by each process, and by every other process', async () => {
    let nowMs = 0
    const activate = createMarkActive(redis, () => nowMs)
    await activate('a.live')
    const marksAt = async (ms: number) => {
      nowMs = ms
      await redis.del(ACTIVE_KEY, TENANTS_KEY)
      await activate('a.live')
      return await names()
    }
    expect(await marksAt(59_999)).toEqual([])
    await createMarkActive(connect())('a.live')
    expect(await names()).toEqual(['a.live'])
    expect(await marksAt(60_000)).toEqual(['a.live'])
  })

  it('keeps a mark that cannot be repeated while it lasts in Redis', async () => {
    let [isDown, nowMs] = [false, 0]
    const call = async (...command: [string, ...string[]]) => {
      if (isDown) throw new Error('Connection is closed.')
      return await redis.call(...command)
    }
    const activate = createMarkActive(
      { sadd: redis.sadd.bind(redis), call } as never, () => nowMs)
    await activate('a.live')
    isDown = true
    await expect(activate('b.live')).rejects.toThrow('Connection is closed.')
    nowMs = MARK_LASTS_MS - 1
    await activate('a.live')
    nowMs = MARK_LASTS_MS
    await expect(activate('a.live')).rejects.toThrow('Connection is closed.')
    expect(MARK_LASTS_MS).toBeLessThan(IDLE_AFTER_MS)
  })

  it('is marked before money moves or a job is accepted, and idle once both are done', async () => {
    const [wallet, store, recoveryStore] =
      [createWallet(redis), createJobStore(redis), createRecoveryStore(redis)]
    const tenant = 'org_a.live'
    const outbox = createOutbox(redis)
    const ship = async () => outbox.remove(tenant, await outbox.pending(tenant))
    const kind = async () => (await recoveryStore.check(tenant)).kind
    await wallet.unlockNew(tenant)
    await wallet.topUp(tenant, { id: 'a', amountMicros: 100_000, reason: '' })
    expect([await names(), await kind()]).toEqual([[tenant], 'ok'])
    await ship()
    await redis.del(ACTIVE_KEY)
    expect(await kind()).toBe('idle')
    await accepted(createJobStore(redis), tenant, acceptRequest('job_1'))
    await ship()
    expect([await names(), await kind()]).toEqual([[tenant], 'ok'])
    await store.tally(tenant,
      blockOf({ job: 'job_1', chunkRows: 10, inputs: true }, { live: upTo(10) }))
    const [ended] = await outbox.pending(tenant)
    await store.close(tenant, 'job_1')
    expect([await kind(), await outbox.pending(tenant)]).toEqual(['ok', [ended]])
    await store.close(tenant, 'job_1', ended?.seq)
    expect(await kind()).toBe('idle')
  })
})
