import { Cluster, Redis } from 'ioredis'
import { createHash } from 'node:crypto'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { failedStoreOf, isInfrastructure } from '../../../../services/runtime/platform/errors.ts'
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

it('INFO of a healthy state Redis becomes memory, its limit and the append-only file', async () => {
  expect(await seriesOf('state')).toEqual({
    'state memory_bytes': 100,
    'state memory_limit_bytes': 400,
    'state aof_bytes': 70,
    'state persistence_failed': 0,
  })
})

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

it('state needs an append-only file, the cache does not', async () => {
  const without = { aof_enabled: '0' }
  expect(await seriesOf('state', without)).toMatchObject({ 'state persistence_failed': 1 })
  expect(await seriesOf('cache', without)).toMatchObject({ 'cache persistence_failed': 0 })
})

it('an unavailable Redis has no series', async () => {
  const metrics = createMetrics()
  const warned: string[] = []
  watchRedis({
    store: 'state',
    redis: { info: async () => { throw new Error('away') } } as unknown as Redis,
    metrics,
    log: { warn: (_details: object, text: string) => { warned.push(text) } } as never,
  })
  expect(await metrics.text()).not.toMatch(/^redis_memory_bytes/m)
  expect(warned).toEqual(['failed to read INFO of the state Redis for metrics'])
})

/** Just enough of Redis: scripts known by digest, and a TIME. */
function fakeRedis (more: object = {}) {
  const known = new Set<string>()
  const calls: unknown[][] = []
  const call = async (...args: unknown[]) => {
    calls.push(args)
    const [command, text] = args as [string, string]
    if (command === 'EVAL') known.add(createHash('sha1').update(text).digest('hex'))
    if (command === 'EVALSHA' && !known.has(text)) throw new Error('NOSCRIPT No matching script')
    return 'answer'
  }
  return { calls, redis: { call, callBuffer: call, ...more } as unknown as Redis }
}

describe('a Lua script', () => {
  const source = 'return 1'
  it('is sent as text only if Redis does not know its digest', async () => {
    const { calls, redis } = fakeRedis()
    const run = script(redis, { name: 'one', source, numberOfKeys: 1 })
    expect(await run(['k'], ['a', 2])).toBe('answer')
    await run(['k'], [])
    expect(calls.map(([command]) => command)).toEqual(['EVALSHA', 'EVAL', 'EVALSHA'])
    expect(calls[1]).toEqual(['EVAL', source, 1, 'k', 'a', 2])
  })

  it('rejects a wrong number of keys, and passes on other errors', async () => {
    const { redis } = fakeRedis({ call: async () => { throw new Error('ERR wrong') } })
    const run = script(redis, { name: 'one', source, numberOfKeys: 1 })
    await expect(run([], [])).rejects.toThrow('script one got 0 keys, expected 1')
    await expect(run(['k'], [])).rejects.toThrow('ERR wrong')
  })

  it('accepts any number of keys if declared so', async () => {
    const { calls, redis } = fakeRedis()
    const run = script(redis, { name: 'each', source, numberOfKeys: 'any' })
    await run(['k', 'l'], ['a'])
    expect(calls[1]).toEqual(['EVAL', source, 2, 'k', 'l', 'a'])
  })
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
    const clock = await redisClock(fakeRedis({ time }).redis)
    clock.stop()
    expect(clock.now()).toBe(Date.now() + aheadMs)
    vi.advanceTimersByTime(1_500)
    expect(clock.now()).toBe(Date.now() + aheadMs)
  })

  it('ignores a jump of the clock of this machine', async () => {
    const time = async () => [String(Math.floor(Date.now() / 1_000)), '0']
    const clock = await redisClock(fakeRedis({ time }).redis)
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
      expect([isInfrastructure(error), failedStoreOf(error)])
        .toEqual([true, 'The cache Redis (REDIS_CACHE_URL, 127.0.0.1:1)'])
    })
})
