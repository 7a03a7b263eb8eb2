import { afterEach, describe, expect, it, vi } from 'vitest'
import { createJobStore } from '../../services/jobs/store.ts'
import { wrappedInRedis } from '../../services/jobs/wrapped-keys.ts'
import { watchGaps, watchMoney } from '../../services/ledger/meters.ts'
import { moneyKeys } from '../../services/money/redis-keys.ts'
import { createTenants } from '../../services/money/tenants.ts'
import { createWallet, createOutbox } from '../../services/money/wallet.ts'
import { homeOf } from '../../services/runtime/platform/redis.ts'
import { isInfrastructure } from '../../services/runtime/platform/errors.ts'
import { createLog } from '../../services/runtime/platform/log.ts'
import { createMetrics } from '../../services/runtime/platform/metrics.ts'
import { accepted, acceptRequest, blockOf, jobClaim, upTo } from '../support/jobs.ts'
import { keepUnlocked } from '../support/redis/unlock.ts'
import { ofEach, openRedisCluster, TENANTS } from '../support/redis/redis.ts'

const { servers, cluster } = await openRedisCluster()
await keepUnlocked(cluster, await servers.connect())

afterEach(() => { vi.useRealTimers() })

const nodeOf = (tenant: string) => homeOf(cluster, moneyKeys(tenant).wallet)

describe('the state in a cluster', () => {
  it('has the tenants on all nodes, and each job finds all its keys on one', async () => {
    const [wallet, store, outbox] =
      [createWallet(cluster), createJobStore(cluster), createOutbox(cluster)]
    await ofEach(async tenant => {
      await wallet.topUp(tenant, { id: 'a', amountMicros: 100_000, reason: '' })
      expect((await store.claim(tenant, jobClaim('job_1'))).kind).toBe('new')
      await accepted(store, tenant, acceptRequest('job_1'))
      await store.announce(tenant, 'job_1')
      expect(await store.batchAction(tenant, 'job_1')).toEqual({ action: 'run' })
      const block = blockOf({ job: 'job_1', chunkRows: 10, inputs: true }, { live: upTo(10) })
      expect(await store.tally(tenant, block)).toMatchObject({ ended: true })
      expect(await store.close(tenant, 'job_1')).toBe(true)
      expect(await wallet.balance(tenant))
        .toMatchObject({ availableMicros: 80_000, chargedMicros: 20_000, reservedMicros: 0 })
    })
    expect(await outbox.tenantsWithPending()).toEqual(TENANTS.toSorted())
    expect((await outbox.pending(TENANTS[0] ?? '')).map(({ type }) => type))
      .toEqual(['topup', 'reserve', 'settle'])
    expect(new Set(TENANTS.map(nodeOf)).size).toBe(3)
  })

  it('refuses a command with keys of several tenants', async () => {
    const wallets = TENANTS.map(tenant => moneyKeys(tenant).wallet)
    const refused = await cluster.del(...wallets).catch((error: unknown) => error)
    expect(String(refused)).toContain('slot')
    expect(isInfrastructure(refused)).toBe(false)
  })

  it('is read across tenants by metrics, key rotation and recovery', async () => {
    const tenants = createTenants(cluster)
    const [metrics, log] = [createMetrics(), createLog('test', { level: 'silent' })]
    watchMoney({ redis: cluster, tenants, metrics, log })
    expect(await metrics.text())
      .toContain(`money_micros{state="charged",mode="live"} ${20_000 * TENANTS.length}`)
    const counted: number[] = []
    const journal = {
      counts: async (last: ReadonlyMap<string, number>) => {
        counted.push(last.size)
        return last
      },
    }
    vi.useFakeTimers({ toFake: ['performance'] })
    watchGaps({ redis: cluster, tenants, journal, lags: async () => [], metrics, log })
    await metrics.text()
    vi.advanceTimersByTime(10_000)
    expect(await metrics.text()).toMatch(/^journal_entries_missing 0$/m)
    expect(counted).toEqual([TENANTS.length])
    const wrapped = []
    for await (const { pieces: [{ binding }] } of wrappedInRedis(cluster)) wrapped.push(binding[1])
    expect(wrapped.toSorted()).toEqual(TENANTS.toSorted())
  })
})
