import { createHash } from 'node:crypto'
import { Cluster, Redis } from 'ioredis'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { isInfrastructure, failedStoreOf } from '../../../../services/runtime/platform/errors.ts'
import {
  connectCommandRedis, connectRedis, redisClock, script,
} from '../../../../services/runtime/platform/redis.ts'

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
