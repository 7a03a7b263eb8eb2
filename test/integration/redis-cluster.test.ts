import { describe, expect, it } from 'vitest'
import { LIMITS_RIGHTS } from '../../deploy/local/access.ts'
import { RequestLimiter } from '../../services/ingest/limits/limiter.ts'
import { redisRecordCache } from '../../services/cache/cache.ts'
import { createMetrics } from '../../services/runtime/platform/metrics.ts'
import { upTo } from '../support/jobs.ts'
import { cachedRecord } from '../support/stage-messages.ts'
import { ofEach, openRedisCluster, TENANTS } from '../support/redis/redis.ts'

const ROWS = 50
/** Longer than any test takes. */
const LEASE_MS = 3_600_000
const tokens = Buffer.concat(upTo(ROWS).map(row => Buffer.alloc(16, `token ${row}`)))
const scopeOf = (tenant: string) => ({ tenant, service: 'whatsapp', version: '1' } as const)

const { servers, cluster } = await openRedisCluster()

const keysOfNodes = () => Promise.all(cluster.nodes('master').map(node => node.dbsize()))

describe('the cache in a cluster', () => {
  it('keeps what is of one tenant and service on one node, and all nodes have some', async () => {
    const cache = redisRecordCache(cluster, { onFault: error => { throw error } })
    const before = await keysOfNodes()
    await ofEach(async tenant => {
      const scope = scopeOf(tenant)
      const claim = (job: string) =>
        cache.claim(scope, tokens, { job, leaseMs: LEASE_MS, usable: () => true })
      expect(new Set(await claim('job_1'))).toEqual(new Set(['mine']))
      expect(new Set(await claim('job_2'))).toEqual(new Set(['leased']))
      const rotated = { ...scope, version: '2', rotated: { versions: ['1'], tokens } }
      expect(new Set(await cache.claim(rotated, tokens, {
        job: 'job_3', leaseMs: LEASE_MS, usable: () => true,
      }))).toEqual(new Set(['leased']))
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
    let clockMs = 0
    await Promise.all(cluster.nodes('master').map(node =>
      node.call('ACL', 'SETUSER', 'ingest', 'on', '>secret', ...LIMITS_RIGHTS.split(' '))))
    const own = await servers.connect('ingest:secret')
    const limiter = new RequestLimiter({
      cache: own,
      limits: () => ({ post: limits, get: limits }),
      // Refills the buckets of the instance, so that Redis decides.
      now: () => (clockMs += 86_400_000),
      log: { warn: () => {} },
      metrics: createMetrics(),
      timeoutMs: 60_000,
    })
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
