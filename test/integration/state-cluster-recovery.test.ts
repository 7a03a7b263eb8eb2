import { describe, expect, it } from 'vitest'
import { subscribeToJobs } from '../../services/jobs/job-waiter.ts'
import { createJobStore } from '../../services/jobs/store.ts'
import { createRecoveryStore } from '../../services/ledger/recovery-store.ts'
import { LostDeliveries } from '../../services/ledger/restore-deliveries.ts'
import { moneyKeys } from '../../services/money/redis-keys.ts'
import { createWallet } from '../../services/money/wallet.ts'
import {
  findHome, listMasters, listServers, redisClock,
} from '../../services/runtime/platform/redis.ts'
import { isInfrastructure } from '../../services/runtime/platform/errors.ts'
import { openSubscriber } from '../../services/runtime/engine/connections.ts'
import { accepted, acceptRequest } from '../support/jobs.ts'
import { keepUnlocked } from '../support/redis/unlock.ts'
import { ofEach, openRedisCluster, TENANTS } from '../support/redis/redis.ts'

const { servers, cluster } = await openRedisCluster()
await keepUnlocked(cluster, await servers.connect())

const nodeOf = (tenant: string) => findHome(cluster, moneyKeys(tenant).wallet)

describe('the recovery of a state in a cluster', () => {
  it('locks tenants by the run of their own server', async () => {
    await ofEach(tenant => createWallet(cluster).unlockNew(tenant))
    const store = createRecoveryStore(cluster)
    const { run, fence = '', runs } = await store.lead('one', 60_000)
    expect([runs.size, runs.has(run)]).toEqual([3, true])
    await ofEach(tenant => cluster.hdel(moneyKeys(tenant).wallet, 'run'))
    expect(await store.countWaiting(TENANTS, runs)).toBe(TENANTS.length)
    const found = await ofEach(async tenant => {
      const snapshot = await store.fenceWallet(tenant, fence)
      if (snapshot === undefined || typeof snapshot === 'string') throw new Error('not locked')
      const term = { run: snapshot.run, fence }
      expect(await store.unlock(tenant, term, { seq: snapshot.seq })).toBe('done')
      return snapshot.run
    })
    expect(new Set(found)).toEqual(runs)
    expect(await store.countWaiting(TENANTS, runs)).toBe(0)
  })

  it('takes a higher fencing token than a wallet has of another leader', async () => {
    const store = createRecoveryStore(cluster)
    const { fence = '' } = await store.lead('one', 60_000)
    const [tenant = ''] = TENANTS
    const { wallet } = moneyKeys(tenant)
    await cluster.hdel(wallet, 'run')
    await cluster.hset(wallet, { fence: String(Number(fence) + 100_000) })
    expect(await store.fenceWallet(tenant, fence)).toBe('fenced')
    const next = await store.lead('one', 60_000)
    expect(Number(next.fence)).toBeGreaterThan(Number(fence) + 100_000)
    expect(await store.fenceWallet(tenant, next.fence ?? '')).toMatchObject({ tenant })
    await cluster.del('{global}:leader')
  })

  it('has a mark of its own on each server', async () => {
    const all = await listServers(cluster)
    expect(all.map(({ address }) => address).toSorted())
      .toEqual((await listMasters(cluster)).map(({ options }) =>
        `${options.host}:${options.port}`).toSorted())
    for (const { keyOf, address, has } of all) {
      expect([findHome(cluster, keyOf('mark')), has(keyOf('mark'))]).toEqual([address, true])
    }
  })

  it('has the end events of jobs published again once per run of the server of deliveries',
    async () => {
      const asked: number[] = []
      const nowMs = Date.now()
      const deps = {
        redis: cluster,
        archive: {
          endedSince: async function * (ms: number) {
            asked.push(nowMs - ms)
            yield * []
          },
        },
        clock: { now: () => nowMs },
        log: { warn: () => {} },
        subscriptions: async () => [],
        history: { listAll: async () => [] },
        emitter: { emit: async () => {} },
        deliverLags: async () => [],
      }
      const { signal } = new AbortController()
      const deliveries = new LostDeliveries(deps)
      await deliveries.record()
      await deliveries.restore(signal)
      await deliveries.restore(signal)
      await deliveries.record()
      // An older file, of a run that is over.
      await cluster.set('run:{deliveries}', 'another run')
      await new LostDeliveries({ ...deps, clock: { now: () => nowMs + 60_000 } }).record()
      await deliveries.restore(signal)
      expect(asked).toEqual([4 * 86_400_000, 600_000])
    })

  it('notifies a subscriber at one node of what happens at all of them', async () => {
    const closing: (() => unknown)[] = []
    const onStop = (close: () => unknown) => { closing.push(close) }
    const notifications = await subscribeToJobs(openSubscriber(cluster, { onStop }))
    await ofEach(tenant => createWallet(cluster)
      .topUp(tenant, { id: 'a', amountMicros: 100_000, reason: '' }))
    const store = createJobStore(cluster)
    const { signal } = new AbortController()
    await ofEach(async tenant => {
      const job = `job_of_${tenant}`
      const notified = notifications.next(job, signal)
      await accepted(store, tenant, acceptRequest(job))
      await store.announce(tenant, job)
      expect(await notified.within(10_000)).toMatchObject({ announced: '1' })
    })
    for (const close of closing) close()
  })

  it('has a clock', async () => {
    const clock = await redisClock(cluster)
    expect(Math.abs(clock.now() - Date.now())).toBeLessThan(1_000)
    clock.stop()
  })

  it('fails the commands of a lost node at once, and those of the others not', async () => {
    const wallet = createWallet(cluster)
    const lost = `127.0.0.1:${servers.ports.at(-1)}`
    await servers.loseNode()
    const readAll = () => Promise.allSettled(TENANTS.map(tenant => wallet.balance(tenant)))
    const first = await readAll()
    const second = await readAll()
    for (const results of [first, second]) {
      for (const [index, result] of results.entries()) {
        const isLost = nodeOf(TENANTS[index] ?? '') === lost
        expect(result.status).toBe(isLost ? 'rejected' : 'fulfilled')
        if (result.status === 'rejected') expect(isInfrastructure(result.reason)).toBe(true)
      }
    }
    // It does not wait for reconnections again.
    expect(second.flatMap(result => result.status === 'rejected' ? [String(result.reason)] : [])
      .filter(text => text.includes('does not respond')).length).toBeGreaterThan(0)
    expect((await listServers(cluster)).map(({ address }) => address)).not.toContain(lost)
    const store = createRecoveryStore(cluster)
    const gone = TENANTS.filter(tenant => nodeOf(tenant) === lost)
    expect(await store.fenceWallet(gone[0] ?? '', '1')).toBe('unreachable')
  })
})
