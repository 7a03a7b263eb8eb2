import type { Redis } from 'ioredis'
import { expect, it } from 'vitest'
import { createMetrics } from '../../../../services/runtime/platform/metrics.ts'
import { watchRedis } from '../../../../services/runtime/platform/redis-meters.ts'

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
