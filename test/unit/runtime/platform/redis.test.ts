import { Cluster, Redis } from 'ioredis'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { findFailedStore, isInfrastructure } from '../../../../services/runtime/platform/errors.ts'
import { createMetrics } from '../../../../services/runtime/platform/metrics.ts'
import {
  connectCommandRedis, connectRedis, redisClock, script, watchRedis,
} from '../../../../services/runtime/platform/redis.ts'

const STATE = {
  used_memory: '100',
  total_system_memory: '1000',
  maxmemory: '400',
  maxmemory_policy: 'noeviction',
  aof_enabled: '1',
  aof_current_size: '70',
  aof_last_write_status: 'ok',
  aof_last_bgrewrite_status: 'ok',
  rdb_last_bgsave_status: 'ok',
}

/** The series of a Redis that answers INFO with these fields, by name. */
async function seriesOf (
  store: 'state' | 'cache', changes: Partial<typeof STATE> = {}
): Promise<Record<string, number>> {
  const metrics = createMetrics()
  const fields = Object.entries({ ...STATE, ...changes }).map(([name, value]) => `${name}:${value}`)
  const redis = { info: async () => ['# Memory', ...fields].join('\r\n') } as unknown as Redis
  watchRedis({ store, redis, metrics, log: { warn: () => { throw new Error('not expected') } } })
  const lines = (await metrics.text()).matchAll(/^redis_(\w+)\{store="(\w+)",server=""\} (\d+)$/gm)
  return Object.fromEntries([...lines].map(([, name, of, value]) =>
    [`${of} ${name}`, Number(value)]))
}

it('a Redis that evicts or has no maximum is limited by the memory of its machine', async () => {
  for (const change of [{ maxmemory_policy: 'allkeys-lru' }, { maxmemory: '0' }]) {
    expect(await seriesOf('cache', change)).toMatchObject({ 'cache memory_limit_bytes': 1_000 })
  }
})

it.each(['aof_last_write_status', 'aof_last_bgrewrite_status', 'rdb_last_bgsave_status'])(
  'an error of %s counts as failed persistence', async name => {
    expect(await seriesOf('cache', { [name]: 'err' }))
      .toMatchObject({ 'cache persistence_failed': 1 })
  })

it('a script whose call fails is not sent again, unless Redis does not know its text', async () => {
  const sent: unknown[] = []
  const call = async (...args: readonly unknown[]) => {
    sent.push(args[0])
    throw new Error('Command timed out')
  }
  const run = script({ call, callBuffer: call } as unknown as Redis,
    { name: 'one', source: 'return 1', numberOfKeys: 1 })
  await expect(run(['k'], [])).rejects.toThrow('Command timed out')
  expect(sent).toEqual(['EVALSHA'])
})

describe('the clock of Redis', () => {
  beforeEach(() => { vi.useFakeTimers({ toFake: ['Date', 'performance'] }) })
  afterEach(() => { vi.useRealTimers() })

  it('follows TIME, whatever the clock of this machine', async () => {
    const aheadMs = 3_600_000
    const time = async () => {
      const nowMs = Date.now() + aheadMs
      return [String(Math.floor(nowMs / 1_000)), String((nowMs % 1_000) * 1_000)]
    }
    const clock = await redisClock({ time } as unknown as Redis)
    clock.stop()
    expect(clock.now()).toBe(Date.now() + aheadMs)
    vi.advanceTimersByTime(1_500)
    expect(clock.now()).toBe(Date.now() + aheadMs)
  })

  it('ignores a jump of the clock of this machine', async () => {
    const time = async () => [String(Math.floor(Date.now() / 1_000)), '0']
    const clock = await redisClock({ time } as unknown as Redis)
    clock.stop()
    const before = clock.now()
    vi.setSystemTime(0)
    expect([Date.now(), clock.now()]).toEqual([0, before])
  })
})

describe('a Redis connection', () => {
  it('fails commands instead of queueing them, and is one Redis for a URL of one', async () => {
    const redis = await connectRedis('redis://127.0.0.1:1')
    expect(redis).toBeInstanceOf(Redis)
    await expect(redis.get('x')).rejects.toThrow()
    redis.disconnect()
  })

  it('gets nodes, TLS, user and password from the URL of a cluster, fails at once', async () => {
    const cluster = await connectRedis(
      'rediss-cluster://me:a%2Fb%40c@127.0.0.1:1,[::1]:2')
    if (!(cluster instanceof Cluster)) throw new Error('it is no cluster')
    expect(cluster.options.redisOptions)
      .toMatchObject({ username: 'me', password: 'a/b@c', tls: {}, commandTimeout: 5_000 })
    await expect(cluster.get('x')).rejects.toThrow()
    cluster.disconnect()
  })

  it('gets sentinels, group, TLS, user and password from a URL of sentinels', async () => {
    const redis = await connectRedis('rediss-sentinel://me:a%2Fb%40c@127.0.0.1:1,[::1]/state')
    redis.disconnect()
    expect(redis.options).toMatchObject({
      sentinels: [{ host: '127.0.0.1', port: 1 }, { host: '::1', port: 26_379 }],
      name: 'state',
      username: 'me',
      password: 'a/b@c',
      sentinelUsername: 'me',
      sentinelPassword: 'a/b@c',
      tls: {},
      enableTLSForSentinelMode: true,
      failoverDetector: true,
      commandTimeout: 5_000,
    })
  })

  it('through Sentinel is refused without a group', async () => {
    await expect(connectRedis('redis-sentinel://127.0.0.1:1')).rejects.toThrow(/without a group/)
  })

  it.each(['redis', 'redis-cluster'])(
    'of a command names its setting and address in errors: %s', async kind => {
      const settings = { REDIS_CACHE_URL: `${kind}://me:secret@127.0.0.1:1` }
      const redis = await connectCommandRedis('CACHE', settings)
      const error: unknown = await redis.get('x').catch((error: unknown) => error)
      redis.disconnect()
      expect([isInfrastructure(error), findFailedStore(error)])
        .toEqual([true, 'The cache Redis (REDIS_CACHE_URL, 127.0.0.1:1)'])
    })
})
