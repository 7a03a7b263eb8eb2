import { afterEach, describe, expect, it, vi } from 'vitest'
import { createApiKeys } from '../../services/accounts/api-keys.ts'
import {
  addOrganizationKey, createOrganizationKeys, OrganizationKeyStore,
} from '../../services/accounts/organization-keys.ts'
import { createOrganizations, newOrganizationId } from '../../services/accounts/organizations.ts'
import { createPartners } from '../../services/accounts/partners.ts'
import { createWebhookEndpoints } from '../../services/webhooks/endpoints.ts'
import { createWebhookSecrets } from '../../services/webhooks/secrets.ts'
import { createRootKeys } from '../../services/runtime/crypto/root-keys.ts'
import { createMarkStore, createCursors } from '../../services/feed/replay-guard.ts'
import { createDeliveries } from '../../services/webhooks/deliveries.ts'
import { createErasures, requestErasure } from '../../services/jobs/erasures.ts'
import type { KeyClass } from '../../services/topology.ts'
import { createJobStore } from '../../services/jobs/store.ts'
import { wrappedInRedis } from '../../services/jobs/wrapped-keys.ts'
import { watchGaps, watchMoney } from '../../services/ledger/meters.ts'
import { moneyKeys } from '../../services/money/redis-keys.ts'
import { createOutbox, createTenants, createWallet } from '../../services/money/wallet.ts'
import { findHome, watchRedis } from '../../services/runtime/platform/redis.ts'
import { isInfrastructure } from '../../services/runtime/platform/errors.ts'
import { createLog } from '../../services/runtime/platform/log.ts'
import { createMetrics } from '../../services/runtime/platform/metrics.ts'
import { accepted, acceptRequest, blockOf, jobClaim, upTo } from '../support/jobs.ts'
import { keepUnlocked } from '../support/redis/unlock.ts'
import { ofEach, openRedisCluster, TENANTS } from '../support/redis/redis.ts'

const LEASE_MS = 3_600_000

const { servers, cluster } = await openRedisCluster()
await keepUnlocked(cluster, await servers.connect())

afterEach(() => { vi.useRealTimers() })

const nodeOf = (tenant: string) => findHome(cluster, moneyKeys(tenant).wallet)

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

  it('is shown by metrics of each master', async () => {
    const metrics = createMetrics()
    watchRedis({ store: 'state', redis: cluster, metrics, log: { warn: () => {} } })
    const page = await metrics.text()
    const masters = cluster.nodes('master').map(({ options }) => `${options.host}:${options.port}`)
    expect(masters).toHaveLength(3)
    for (const master of masters) {
      const labels = `{store="state",server="${master}"}`
      expect(page).toMatch(new RegExp(`^redis_memory_bytes${labels} [1-9]`, 'm'))
      // None of them has an append-only file.
      expect(page).toContain(`redis_persistence_failed${labels} 1\n`)
    }
  })
})

describe('the accounts, deliveries, erasures and feeds of a state in a cluster', () => {
  it('has the accounts of all tenants in one slot', async () => {
    const roots = createRootKeys({
      setting: 'TEST', keys: { 1: Buffer.alloc(32, 7).toString('base64') }, active: '1',
    })
    const store = new OrganizationKeyStore(cluster)
    const orgId = newOrganizationId()
    const keysOf = async (keyClass: KeyClass) => {
      await addOrganizationKey({ class: keyClass, roots, store }, orgId, 1)
      return createOrganizationKeys({ class: keyClass, roots, store })
    }
    const webhooks = { redis: cluster, keys: await keysOf('webhooks') }
    const organizations = createOrganizations(cluster)
    const keys = createApiKeys(cluster)
    const partners = createPartners({ redis: cluster, keys: await keysOf('partners') })
    const endpoints = createWebhookEndpoints(webhooks)
    await organizations.create('Acme', orgId)
    const { secret } = await keys.create({ orgId, mode: 'live', scopes: ['jobs:read'] })
    expect(await keys.findKey(secret, '')).toMatchObject({ kind: 'ok', key: { org: orgId } })
    await organizations.setPolicy(orgId, { weight: 2 })
    expect((await organizations.policy(`${orgId}.live`)).weight).toBe(2)
    expect(await createWebhookSecrets(webhooks).show(orgId)).toMatch(/^whsec_/)
    const settings = {
      url: 'https://example.com/', events: ['*' as const], description: '', enabled: true,
    }
    await endpoints.create(`${orgId}.live`, settings, 5)
    expect(await endpoints.list(`${orgId}.live`)).toHaveLength(1)
    const partner = {
      name: 'acme', orgId, mode: 'live' as const, pricesMicros: {}, partitions: 1,
    }
    expect(await partners.create(partner)).toBeDefined()
    expect((await partners.list()).map(({ name }) => name)).toEqual(['acme'])
  })

  it('queues deliveries and erasures of all tenants, and keeps feeds', async () => {
    const deliveries = createDeliveries(cluster)
    const clock = { now: () => Date.now() }
    await ofEach(async tenant => {
      expect(await deliveries.put({
        tenant,
        job: `job_of_${tenant}`,
        type: 'job.completed',
        to: { webhookUrl: 'https://example.com/' },
      })).toBe(true)
      await requestErasure({ redis: cluster, producer: { send: async () => {} }, clock },
        { tenant, job: 'job_2', cache: false })
      const partition = { tenant, partner: 'acme', partition: 0 }
      expect((await createCursors(cluster).read(partition)).size).toBe(0)
      const change = { since: -1, offset: 1, changed: new Map(), forgotten: [] }
      expect(await createMarkStore(cluster).write(partition, change)).toBe(true)
    })
    const limits = { priority: 'quick' as const, limit: 100, leaseMs: LEASE_MS, tenantSlots: 10 }
    const claims = await deliveries.claim(limits)
    expect(claims.length).toBeGreaterThan(0)
    expect(await deliveries.dueBy(Date.now() + 60_000)).toBe(TENANTS.length - claims.length)
    expect(await createErasures(cluster).requested(100)).toHaveLength(TENANTS.length)
  })
})
