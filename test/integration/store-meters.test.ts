import { afterAll, expect, it, vi } from 'vitest'
import { Redis } from 'ioredis'
import { freePort } from '../../deploy/local/ports.ts'
import { createAdminClient } from '../../services/runtime/kafka/client.ts'
import { watchStores } from '../../services/ledger/meters.ts'
import { createMetrics } from '../../services/runtime/platform/metrics.ts'
import { connectRedis, watchRedis } from '../../services/runtime/platform/redis.ts'
import { connectAll } from '../support/stacks/connected.ts'
import { eventually } from '../support/eventually.ts'
import { startRedisServer } from '../support/redis/server.ts'

const { clickhouse, state, brokers, env } = connectAll()
const log = { warn: vi.fn() }
const TABLE = 'parts_of_a_test'

afterAll(() => clickhouse.command(`DROP TABLE IF EXISTS ${TABLE}`))

/** Values by series, of what is watched by then. */
async function valuesOf (metrics: ReturnType<typeof createMetrics>): Promise<Map<string, number>> {
  const lines = (await metrics.text()).matchAll(/^((?:redis|kafka|clickhouse)_\S+) (\S+)$/gm)
  return new Map([...lines].map(([, series = '', value]) => [series, Number(value)]))
}

/** What the first reading of a ledger finds. */
async function storesOf (): Promise<ReadonlyMap<string, number>> {
  const metrics = createMetrics()
  const adminClient = createAdminClient({ brokers }, 'test')
  // The ledger has more that is of no concern here, the store of accounts among it.
  const dependencies = { store: {}, metrics, log }
  watchStores({ state, adminClient, clickhouse, ...dependencies })
  const found = await valuesOf(metrics)
  await adminClient.close()
  return found
}

it('metrics show memory and persistence of both Redis', async () => {
  const metrics = createMetrics()
  const cache = await connectRedis(env.REDIS_CACHE_URL ?? '')
  // A file that was just made is empty.
  await state.multi().set(TABLE, '').del(TABLE).exec()
  watchRedis({ store: 'cache', redis: cache, metrics, log })
  const found = new Map([...await valuesOf(metrics), ...await storesOf()])
  cache.disconnect()
  for (const store of ['state', 'cache']) {
    const used = found.get(`redis_memory_bytes{store="${store}",server=""}`) ?? NaN
    expect(used).toBeGreaterThan(0)
    expect(found.get(`redis_memory_limit_bytes{store="${store}",server=""}`)).toBeGreaterThan(used)
    expect(found.get(`redis_persistence_failed{store="${store}",server=""}`)).toBe(0)
  }
  expect(found.get('redis_aof_bytes{store="state",server=""}')).toBeGreaterThan(0)
  expect(found.get('redis_aof_bytes{store="cache",server=""}')).toBe(0)
})

it.each([
  ['aof', 1, 1], ['replicas', 1, 0], ['managed', 0, 0],
] as const)('state kept by %s is not persisted: %i, with a replica %i', async (
  durability, alone, replicated
) => {
  const [master, replica] = [await startRedisServer(), await startRedisServer()]
  try {
    const redis = new Redis(master.socket)
    const failed = async () => {
      const metrics = createMetrics()
      watchRedis({ store: 'state', durability, redis, metrics, log })
      return (await valuesOf(metrics)).get('redis_persistence_failed{store="state",server=""}')
    }
    expect(await failed()).toBe(alone)
    const port = await freePort()
    await redis.config('SET', 'port', port)
    const follower = new Redis(replica.socket)
    await follower.replicaof('127.0.0.1', port)
    await eventually(async () => expect(await redis.info()).toContain('connected_slaves:1'))
    expect(await failed()).toBe(replicated)
    follower.disconnect()
    redis.disconnect()
  } finally {
    await Promise.all([master.stop(), replica.stop()])
  }
})

it('metrics count partitions that lack a copy in sync', async () => {
  await eventually(async () => {
    expect((await storesOf()).get('kafka_partitions_under_replicated')).toBe(0)
  })
})

it('metrics show disk, parts of a table and a waiting delete of ClickHouse', async () => {
  const names = ['disk_bytes', 'disk_free_bytes'].map(name => `clickhouse_${name}{disk="default"}`)
  await clickhouse.command(
    `CREATE TABLE ${TABLE} (a UInt8) ENGINE = MergeTree PARTITION BY a ORDER BY a`)
  await clickhouse.command(`SYSTEM STOP MERGES ${TABLE}`)
  for (const a of [1, 1, 1, 2]) {
    await clickhouse.insert({ table: TABLE, values: [{ a }] })
  }
  await clickhouse.command(`ALTER TABLE ${TABLE} DELETE WHERE a = 2 SETTINGS mutations_sync = 0`)
  await eventually(async () => {
    const found = await storesOf()
    const [total = NaN, free = NaN] = names.map(name => found.get(name))
    expect(free).toBeGreaterThan(0)
    expect(total).toBeGreaterThan(free)
    expect(found.get(`clickhouse_parts{table="${TABLE}"}`)).toBe(3)
    expect(found.get('clickhouse_merge_seconds')).toBeGreaterThanOrEqual(0)
    expect(found.get('clickhouse_mutation_seconds')).toBeGreaterThan(0)
  })
  await clickhouse.command(`SYSTEM START MERGES ${TABLE}`)
  await eventually(async () => {
    expect((await storesOf()).get('clickhouse_mutation_seconds')).toBe(0)
  })
})
