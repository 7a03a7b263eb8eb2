import { Cluster } from 'ioredis'
import type { Log } from './log.ts'
import { type Metrics, createCachedReading } from './metrics.ts'
import { addressOf } from './cells.ts'
import type { RedisClient } from './redis.ts'

/**
 * What keeps the state Redis from losing acknowledged writes: its append-only file, replicas, or a
 * managed service with a log of its own, which no client can see.
 */
export type Durability = 'aof' | 'replicas' | 'managed'

type RedisMeters = {
  readonly store: 'state' | 'cache'
  /** Of the state; `aof` by default. */
  readonly durability?: Durability
  readonly redis: RedisClient
  readonly metrics: Pick<Metrics, 'watchAll'>
  readonly log: Pick<Log, 'warn'>
}

type Server = {
  /** Empty for a Redis that is no cluster. */
  readonly address: string
  readonly usedBytes: number
  readonly limitBytes: number
  /** 0 without an append-only file. */
  readonly aofBytes: number
  readonly hasAof: boolean
  readonly hasReplica: boolean
  readonly hasFailed: boolean
}

/**
 * Reports memory and persistence of a Redis server, or of each master of a cluster, from INFO
 * whenever metrics are read. State without what its durability promises counts as not persisted.
 */
export function watchRedis (
  { store, durability = 'aof', redis, metrics, log }: RedisMeters
): void {
  const isKept = ({ hasAof, hasReplica }: Server) =>
    durability === 'managed' || (durability === 'replicas' ? hasReplica : hasAof)
  const read = createCachedReading(() => readServers(redis), {
    name: `INFO of the ${store} Redis`, log,
  })
  type Name = 'redis_memory_bytes' | 'redis_memory_limit_bytes' | 'redis_aof_bytes' |
    'redis_persistence_failed'
  const watch = (name: Name, of: (server: Server) => number) =>
    metrics.watchAll(name, async () => (await read()).map(server =>
      ({ labels: { store, server: server.address }, value: of(server) })))
  watch('redis_memory_bytes', ({ usedBytes }) => usedBytes)
  watch('redis_memory_limit_bytes', ({ limitBytes }) => limitBytes)
  watch('redis_aof_bytes', ({ aofBytes }) => aofBytes)
  watch('redis_persistence_failed', server =>
    Number(server.hasFailed || (store === 'state' && !isKept(server))))
}

const readServers = (redis: RedisClient): Promise<readonly Server[]> =>
  Promise.all(redis instanceof Cluster
    ? redis.nodes('master').map(async node =>
      serverOf(addressOf(node), await node.info()))
    : [redis.info().then(info => serverOf('', info))])

const LAST_STATUSES = [
  'aof_last_write_status', 'aof_last_bgrewrite_status', 'rdb_last_bgsave_status',
]

function serverOf (address: string, info: string): Server {
  const fields = new Map(info.split('\r\n').map(line => line.split(':') as [string, string]))
  const numberOf = (name: string) => Number(fields.get(name) ?? 0)
  const maxBytes = numberOf('maxmemory')
  // A server that evicts stays at its maximum; only its machine can run out of memory.
  const refusesWrites = maxBytes > 0 && fields.get('maxmemory_policy') === 'noeviction'
  return {
    address,
    usedBytes: numberOf('used_memory'),
    limitBytes: refusesWrites ? maxBytes : numberOf('total_system_memory'),
    aofBytes: numberOf('aof_current_size'),
    hasAof: fields.get('aof_enabled') === '1',
    hasReplica: numberOf('connected_slaves') > 0,
    hasFailed: LAST_STATUSES.some(name => fields.get(name) === 'err'),
  }
}
