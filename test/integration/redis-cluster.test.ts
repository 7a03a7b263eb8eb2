import { createHash } from 'node:crypto'
import type { Cluster, Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { LIMITS_RIGHTS } from '../../deploy/local/redis.ts'
import { createRedisLimiter } from '../../services/ingest/limits/limiter.ts'
import { createDeliveries } from '../../services/jobs/deliveries.ts'
import { createJobStore } from '../../services/jobs/store.ts'
import { createWalletSums } from '../../services/ledger/money-meters.ts'
import { createRecoveryStore } from '../../services/ledger/recovery-store.ts'
import { createOutbox } from '../../services/money/outbox.ts'
import { moneyKeys } from '../../services/money/redis-keys.ts'
import { createTenants } from '../../services/money/tenants.ts'
import { createWallet } from '../../services/money/wallet.ts'
import { redisRecordCache } from '../../services/cache/redis-cache.ts'
import { keepUnlocked } from '../support/unlock.ts'
import { accepted, acceptRequest, blockOf, upTo } from '../support/jobs.ts'
import { startRedisCluster, type RedisCluster } from '../support/redis-cluster.ts'
import { cachedRecord } from '../support/stage-doubles.ts'

/** Names that differ by a digit alone may all be of one node. */
const TENANTS = upTo(24).map(number =>
  `org_${createHash('sha256').update(String(number)).digest('hex').slice(0, 26)}.live`)
const ROWS = 50
/** Longer than any test takes. */
const LEASE_MS = 3_600_000
const tokens = Buffer.concat(upTo(ROWS).map(row => Buffer.alloc(16, `token ${row}`)))
const scopeOf = (tenant: string) => ({ tenant, service: 'whatsapp', version: '1' } as const)
const ofEach = <T>(work: (tenant: string) => Promise<T>) => Promise.all(TENANTS.map(work))

/** What keeps the state of tenants in Redis. */
const stateModules = (redis: Redis) => ({
  wallet: createWallet(redis),
  store: createJobStore(redis),
  outbox: createOutbox(redis),
  deliveries: createDeliveries(redis),
  recoveryStore: createRecoveryStore(redis),
})

let servers: RedisCluster
let cluster: Cluster
/** What keeps state asks for one Redis; that its commands can be sent is what is shown. */
let asState: Redis
let state: ReturnType<typeof stateModules>
beforeAll(async () => {
  servers = await startRedisCluster()
  cluster = await servers.connect()
  asState = cluster as unknown as Redis
  state = stateModules(asState)
  await keepUnlocked(asState, await servers.connect() as unknown as Redis)
})

afterAll(() => servers?.stop())

const keysOfNodes = () => Promise.all(cluster.nodes('master').map(node => node.dbsize()))

describe('the tenants of a state in a cluster', () => {
  it('are spread over its nodes, and each job finds all its keys on one', async () => {
    const { wallet, store, outbox } = state
    await ofEach(async tenant => {
      await wallet.topUp(tenant, { id: 'a', amountMicros: 100_000, reason: '' })
      await accepted(store, tenant, acceptRequest('job_1', { idempotencyKey: 'key' }))
      await store.announce(tenant, 'job_1')
      expect(await store.batchAction(tenant, 'job_1')).toBe('run')
      const block = blockOf({ job: 'job_1', chunkRows: 10, inputs: true }, { live: upTo(10) })
      expect(await store.tally(tenant, block)).toMatchObject({ ended: true })
      expect(await store.close(tenant, 'job_1')).toBe(true)
      expect(await wallet.balance(tenant))
        .toMatchObject({ availableMicros: 80_000, chargedMicros: 20_000, reservedMicros: 0 })
    })
    expect(await outbox.tenantsWithPending()).toEqual(TENANTS.toSorted())
    expect((await outbox.pending(TENANTS[0] ?? '')).map(({ type }) => type))
      .toEqual(['topup', 'reserve', 'settle'])
    expect(Math.min(...await keysOfNodes())).toBeGreaterThan(TENANTS.length / 4)
  })

  it('receive the outcomes of their jobs from every node', async () => {
    const { deliveries } = state
    await ofEach(async tenant => {
      expect(await deliveries.put({
        tenant,
        job: `job_of_${tenant}`,
        type: 'job.completed',
        to: { webhookUrl: 'https://example.com/' },
      })).toBe(true)
    })
    const limits = { priority: 'quick' as const, limit: 100, leaseMs: LEASE_MS, tenantSlots: 10 }
    const claims = await deliveries.claim(limits)
    expect(claims.length).toBeGreaterThan(0)
    expect(await deliveries.dueBy(Date.now() + 60_000)).toBe(TENANTS.length - claims.length)
  })

  it('are not what a state may be: it is read across tenants, and has one run', async () => {
    const sums = createWalletSums({ redis: asState, tenants: createTenants(asState) })
    await expect(sums()).rejects.toThrow(/slot/)
    const { recoveryStore } = state
    const { run, fence = '' } = await recoveryStore.lead('one', 60_000)
    await ofEach(tenant => asState.hdel(moneyKeys(tenant).wallet, 'run'))
    const runs = await ofEach(async tenant => {
      const snapshot = await recoveryStore.snapshotWallet(tenant, fence)
      return snapshot === undefined || snapshot === 'fenced' ? snapshot : snapshot.run
    })
    expect(runs).toContain(run)
    expect(new Set(runs).size).toBe(3)
  })
})

describe('the cache in a cluster', () => {
  it('keeps what is of one tenant and service on one node, and all nodes have some', async () => {
    const cache = redisRecordCache(cluster, { onFault: error => { throw error } })
    const before = await keysOfNodes()
    await ofEach(async tenant => {
      const scope = scopeOf(tenant)
      const claim = (job: string) =>
        cache.claim(scope, tokens, { job, leaseMs: LEASE_MS, usable: () => true })
      expect(new Set(await claim('job_1'))).toEqual(new Set(['mine']))
      expect(new Set(await claim('job_2'))).toEqual(new Set(['held']))
      const rotated = { ...scope, version: '2', rotated: { versions: ['1'], tokens } }
      expect(new Set(await cache.claim(rotated, tokens, {
        job: 'job_3', leaseMs: LEASE_MS, usable: () => true,
      }))).toEqual(new Set(['held']))
      const records = upTo(ROWS).map(row => cachedRecord({ confidence: row, job: tenant }))
      await cache.store(scope, tokens, records)
      expect(await cache.find(scope, tokens)).toEqual(records)
    })
    const more = (await keysOfNodes()).map((keys, index) => keys - (before[index] ?? 0))
    expect(more.reduce((sum, keys) => sum + keys, 0)).toBe(TENANTS.length * ROWS)
    expect(more.every(keys => keys > 0 && keys % ROWS === 0)).toBe(true)
  })

  it('keeps the limits of an organization on one node, for the user of ingest', async () => {
    const limits = [{ capacity: 1, seconds: 3_600 }]
    await Promise.all(cluster.nodes('master').map(node =>
      node.call('ACL', 'SETUSER', 'ingest', 'on', '>secret', ...LIMITS_RIGHTS.split(' '))))
    const own = await servers.connect('ingest:secret')
    const limiter = createRedisLimiter(own, () => ({ post: limits, get: limits }))
    await ofEach(async tenant => {
      const admit = () => limiter.admit({ org: tenant, kind: 'post' })
      expect([(await admit()).kind, (await admit()).kind]).toEqual(['admitted', 'throttled'])
    })
  })

  it('misses without a delay for the tenants of a failed node', async () => {
    const faults: unknown[] = []
    const cache = redisRecordCache(cluster, { onFault: error => faults.push(error) })
    await servers.loseNode()
    const found = await ofEach(tenant => cache.find(scopeOf(tenant), tokens))
    const missed = found.filter(records => records.every(record => record === undefined))
    const whole = found.filter(records => records.every(record => record !== undefined))
    expect(missed.length).toBe(faults.length)
    expect([missed.length > 0, whole.length > 0]).toEqual([true, true])
    expect(missed.length + whole.length).toBe(TENANTS.length)
  })
})
