import { join } from 'node:path'
import type { Redis } from 'ioredis'
import { afterAll, describe, expect, it, onTestFinished, vi } from 'vitest'
import { LIMITS_RIGHTS } from '../../deploy/local/access.ts'
import { freePort } from '../../deploy/local/ports.ts'
import { RequestLimiter } from '../../services/ingest/limits/limiter.ts'
import { createMetrics } from '../../services/runtime/platform/metrics.ts'
import { openRedis } from '../support/redis/open-redis.ts'
import { eventually } from '../support/eventually.ts'
import { startRedisServer } from '../support/redis/server.ts'
import { newFolder } from '../support/folder.ts'

const folder = newFolder('limits-')
const path = join(folder, 's')
const start = () => startRedisServer(['--unixsocket', path])
let server = await start()
const connections: Redis[] = []
const connect = () => {
  const connection = openRedis(path)
  connections.push(connection)
  return connection
}
afterAll(async () => {
  for (const connection of connections) connection.disconnect()
  await server.stop()
})
const bucket = { capacity: 3, seconds: 86_400 }
const limits = { post: [bucket], get: [bucket] }

/** The limits of an instance of the interface, whose clock a test moves. */
function instance (options: { readonly timeoutMs?: number } = {}) {
  const clock = { ms: 0 }
  const metrics = createMetrics()
  const logged: string[] = []
  const log = { warn: (_fields: unknown, message?: string) => { logged.push(message ?? '') } }
  const limiter = new RequestLimiter({
    cache: connect(), limits: () => limits, log, metrics, now: () => clock.ms, ...options,
  })
  const kinds = async (org: string, times: number) => {
    const answers: string[] = []
    for (let sent = 0; sent < times; sent++) {
      answers.push((await limiter.admit({ org, kind: 'post' })).kind)
    }
    return answers
  }
  const localOnly = async () =>
    Number(/^limits_local_total (\d+)$/m.exec(await metrics.text())?.[1] ?? 0)
  return { clock, kinds, localOnly, logged }
}

const admitted = (times: number) => Array(times).fill('admitted')

describe('the limits of two instances', () => {
  it('are shared, each its own while the cache Redis is down, and shared again after', async () => {
    // A busy machine must not make a running server appear unavailable.
    const [one, other] = [instance({ timeoutMs: 60_000 }), instance({ timeoutMs: 60_000 })]
    expect(await one.kinds('org_1', 2)).toEqual(admitted(2))
    expect(await other.kinds('org_1', 2)).toEqual(['admitted', 'throttled'])
    await server.stop()
    expect(await one.kinds('org_1', 2)).toEqual(['admitted', 'throttled'])
    expect(await other.kinds('org_1', 3)).toEqual([...admitted(2), 'throttled'])
    expect(await one.kinds('org_2', 4)).toEqual([...admitted(3), 'throttled'])
    expect([await one.localOnly(), await other.localOnly()]).toEqual([4, 2])
    expect(one.logged)
      .toEqual(['shared rate limits unavailable, using the limits of this instance'])
    server = await start()
    await eventually(() => Promise.all(connections.map(connection => connection.ping())))
    for (const { clock } of [one, other]) clock.ms += 1_000
    expect(await one.kinds('org_3', 2)).toEqual(admitted(2))
    expect(await other.kinds('org_3', 2)).toEqual(['admitted', 'throttled'])
    expect([await one.localOnly(), await other.localOnly()]).toEqual([4, 2])
  })

  it('continue while the cache Redis hangs, with one delayed request a second', async () => {
    // On a busy machine a running server may take longer than the limiter waits for it.
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    onTestFinished(() => { vi.useRealTimers() })
    const { clock, kinds, localOnly, logged } = instance()
    const redis = connect()
    expect(await kinds('org_4', 1)).toEqual(admitted(1))
    const calls = async () =>
      /cmdstat_evalsha:calls=(\d+)/.exec(await redis.info('commandstats'))?.[1]
    const before = await calls()
    await redis.call('CLIENT', 'PAUSE', '600000', 'WRITE')
    try {
      const delayed = kinds('org_4', 1)
      await vi.advanceTimersByTimeAsync(100)
      expect(await delayed).toEqual(admitted(1))
      const orgs = Array.from({ length: 45 }, (_, index) => `org_${index + 5}`)
      const others = [kinds('org_4', 2), ...orgs.map(org => kinds(org, 1))]
      await vi.advanceTimersByTimeAsync(100)
      expect((await Promise.all(others)).flat())
        .toEqual(['admitted', 'throttled', ...admitted(45)])
      expect(await localOnly()).toBe(47)
      // A second later one of them probes Redis, and its failure is logged once a minute.
      clock.ms += 1_000
      const later = ['org_51', 'org_52'].map(org => kinds(org, 1))
      await vi.advanceTimersByTimeAsync(100)
      expect((await Promise.all(later)).flat()).toEqual(admitted(2))
      expect(logged).toHaveLength(1)
    } finally {
      await redis.call('CLIENT', 'UNPAUSE')
    }
    // Of all these requests only two called Redis.
    await expect.poll(calls).toBe(String(Number(before) + 2))
    clock.ms += 1_000
    expect(await kinds('org_50', 1)).toEqual(admitted(1))
    expect(await redis.exists('limit:{org_50}:post')).toBe(1)
  })
})

it('the user of ingest at the cache Redis reaches limits and nothing else', async () => {
  const port = String(await freePort())
  const own = await startRedisServer([
    '--port', port, '--bind', '127.0.0.1',
    '--user', 'ingest', 'on', '>secret', ...LIMITS_RIGHTS.split(' '),
  ])
  const redis = openRedis(`redis://ingest:secret@127.0.0.1:${port}`)
  onTestFinished(async () => {
    redis.disconnect()
    await own.stop()
  })
  const request = { org: 'org_1', kind: 'post' } as const
  const limiter = new RequestLimiter({
    cache: redis,
    limits: () => limits,
    log: { warn: () => {} },
    metrics: createMetrics(),
    timeoutMs: 60_000,
  })
  expect((await limiter.admit(request)).kind).toBe('admitted')
  await limiter.refund(request)
  expect(Math.round((await limiter.levels(request))[0]?.tokens ?? 0)).toBe(3)
  await redis.pexpire('limit:{org_1}:post', 1)
  const denied = [
    ['HMGET', 'c:{abcdef}1:token', 'at'], ['HSET', 'c:{abcdef}1:token', 'at', '0'],
    ['EVAL', "return redis.call('GET', 'limit:{org_1}:post')", '0'],
    ['EVAL', "return redis.call('HMGET', 'c:{abcdef}1:token', 'at')", '0'],
    ['KEYS', '*'], ['SCAN', '0'], ['DEL', 'limit:{org_1}:post'], ['FLUSHALL'],
    ['CONFIG', 'GET', '*'], ['ACL', 'LIST'], ['CLIENT', 'LIST'], ['CLIENT', 'PAUSE', '1'],
    ['MONITOR'], ['PUBLISH', 'a', 'b'],
  ]
  for (const [command = '', ...args] of denied) {
    await expect(redis.call(command, ...args), command).rejects.toThrow(/NOPERM|can't/)
  }
})
