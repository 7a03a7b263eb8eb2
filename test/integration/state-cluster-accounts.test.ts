import { describe, expect, it } from 'vitest'
import { createApiKeys } from '../../services/accounts/api-keys.ts'
import {
  addOrganizationKey, createOrganizationKeys, createOrganizationKeyStore,
} from '../../services/accounts/organization-keys.ts'
import { createOrganizations, newOrganizationId } from '../../services/accounts/organizations.ts'
import { createPartners } from '../../services/accounts/partners.ts'
import { createWebhookEndpoints } from '../../services/webhooks/endpoints.ts'
import { createWebhookSecrets } from '../../services/webhooks/secrets.ts'
import { createRootKeys } from '../../services/runtime/crypto/root-keys/root-keys.ts'
import { createMarkStore, createCursors } from '../../services/feed/replay-guard.ts'
import { createDeliveries } from '../../services/webhooks/deliveries.ts'
import { createErasures, requestErasure } from '../../services/jobs/erasures.ts'
import type { KeyClass } from '../../services/topology.ts'
import { keepUnlocked } from '../support/redis/unlock.ts'
import { ofEach, openRedisCluster, TENANTS } from '../support/redis/redis.ts'

const LEASE_MS = 3_600_000

const { servers, cluster } = await openRedisCluster()
await keepUnlocked(cluster, await servers.connect())

describe('the accounts, deliveries, erasures and feeds of a state in a cluster', () => {
  it('has the accounts of all tenants in one slot', async () => {
    const roots = createRootKeys({
      setting: 'TEST', keys: { 1: Buffer.alloc(32, 7).toString('base64') }, active: '1',
    })
    const store = createOrganizationKeyStore(cluster)
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
