import type { ClickHouseClient } from '@clickhouse/client'
import type { Log } from '../platform/log.ts'
import type { Metrics } from '../platform/metrics.ts'
import { createCachedReading } from '../platform/cached-reading.ts'
import { watchRedis } from '../platform/redis-meters.ts'
import type { AdminClient } from '../kafka/connection.ts'
import type { RedisClient } from '../platform/redis.ts'

type Watching = {
  readonly metrics: Pick<Metrics, 'watchAll'>
  readonly log: Pick<Log, 'warn'>
}

type Stores = Watching & {
  readonly state: RedisClient
  readonly adminClient: Pick<AdminClient, 'use'>
  readonly clickhouse: Pick<ClickHouseClient, 'query'>
}

/** Reports metrics of Redis, Kafka and ClickHouse, read when metrics are scraped. */
export function watchStores ({ state, adminClient, clickhouse, ...watching }: Stores): void {
  watchRedis({ store: 'state', redis: state, ...watching })
  watchReplication({ adminClient, ...watching })
  watchClickhouse({ clickhouse, ...watching })
}

/** Covers all topics that this user may describe. A partition without a leader counts as well. */
function watchReplication (
  { adminClient, metrics, log }: Watching & Pick<Stores, 'adminClient'>
): void {
  const read = createCachedReading(async () => {
    const { topics } = await adminClient.use(admin => admin.fetchTopicMetadata())
    const partitions = topics.flatMap(topic => topic.partitions)
    return [partitions.filter(({ isr, replicas }) => isr.length < replicas.length).length]
  }, { name: 'the replication of topics', log })
  metrics.watchAll('kafka_partitions_under_replicated', async () =>
    (await read()).map(value => ({ labels: {}, value })))
}

const DISKS = `
  SELECT name, toFloat64(total_space) AS total, toFloat64(free_space) AS free FROM system.disks`
const PARTS = `
  SELECT table, max(parts) AS parts FROM (
    SELECT table, toFloat64(count()) AS parts FROM system.parts
    WHERE active AND database = currentDatabase() GROUP BY table, partition_id
  ) GROUP BY table`
const WORK = `
  SELECT
    (SELECT max(elapsed) FROM system.merges WHERE database = currentDatabase()) AS merge,
    (
      SELECT if(count() = 0, 0, toFloat64(now() - min(create_time))) FROM system.mutations
      WHERE database = currentDatabase() AND NOT is_done
    ) AS mutation`

type Disk = { readonly name: string, readonly total: number, readonly free: number }
type TableParts = { readonly table: string, readonly parts: number }
type Work = { readonly merge: number, readonly mutation: number }

function watchClickhouse (
  { clickhouse, metrics, log }: Watching & Pick<Stores, 'clickhouse'>
): void {
  const readingOf = <T>(query: string) => createCachedReading(async () =>
    await (await clickhouse.query({ query, format: 'JSONEachRow' })).json<T>(), {
    name: 'the system tables of ClickHouse', log,
  })
  const disks = readingOf<Disk>(DISKS)
  const parts = readingOf<TableParts>(PARTS)
  const work = readingOf<Work>(WORK)
  metrics.watchAll('clickhouse_disk_bytes', async () =>
    (await disks()).map(({ name, total }) => ({ labels: { disk: name }, value: total })))
  metrics.watchAll('clickhouse_disk_free_bytes', async () =>
    (await disks()).map(({ name, free }) => ({ labels: { disk: name }, value: free })))
  metrics.watchAll('clickhouse_parts', async () =>
    (await parts()).map(({ table, parts: value }) => ({ labels: { table }, value })))
  metrics.watchAll('clickhouse_merge_seconds', async () =>
    (await work()).map(({ merge }) => ({ labels: {}, value: merge })))
  metrics.watchAll('clickhouse_mutation_seconds', async () =>
    (await work()).map(({ mutation }) => ({ labels: {}, value: mutation })))
}
