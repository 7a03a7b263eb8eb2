/** The declaration of a metric. */
export type MetricDefinition = {
  readonly name: string
  readonly type: 'counter' | 'gauge' | 'histogram'
  readonly labels: readonly string[]
  readonly help: string
}

/** The part of the list about Redis, Kafka and ClickHouse. */
export const STORE_METRICS = [
  {
    name: 'redis_memory_bytes',
    type: 'gauge',
    labels: ['store', 'server'],
    help: 'Used memory of a Redis, or of each master of a cluster.',
  },
  {
    name: 'redis_memory_limit_bytes',
    type: 'gauge',
    labels: ['store', 'server'],
    help: 'Memory limit of a Redis: maxmemory, or the memory of its machine when it evicts or ' +
      'has no maxmemory.',
  },
  {
    name: 'redis_aof_bytes',
    type: 'gauge',
    labels: ['store', 'server'],
    help: 'Size of the append-only file (AOF) of a Redis; 0 without one.',
  },
  {
    name: 'redis_persistence_failed',
    type: 'gauge',
    labels: ['store', 'server'],
    help: '1 if the last write or rewrite of the AOF or the last RDB save failed, or the state ' +
      'Redis has no AOF.',
  },
  {
    name: 'kafka_partitions_under_replicated',
    type: 'gauge',
    labels: [],
    help: 'Under-replicated partitions of the topics that ledger may describe.',
  },
  {
    name: 'clickhouse_disk_bytes',
    type: 'gauge',
    labels: ['disk'],
    help: 'Size of a disk of ClickHouse.',
  },
  {
    name: 'clickhouse_disk_free_bytes',
    type: 'gauge',
    labels: ['disk'],
    help: 'Free space of a disk of ClickHouse.',
  },
  {
    name: 'clickhouse_parts',
    type: 'gauge',
    labels: ['table'],
    help: 'Maximum number of active parts in a partition of a table; ClickHouse delays inserts ' +
      'from 1,000 on and rejects them from 3,000 on.',
  },
  {
    name: 'clickhouse_merge_seconds',
    type: 'gauge',
    labels: [],
    help: 'Age of the oldest running merge of ClickHouse; 0 when none runs.',
  },
  {
    name: 'clickhouse_mutation_seconds',
    type: 'gauge',
    labels: [],
    help: 'Age of the oldest unfinished mutation of ClickHouse, such as the delete of an erased ' +
      'key; 0 without one.',
  },
] as const satisfies readonly MetricDefinition[]
