import { Cluster, type Redis } from 'ioredis'
import type { Log } from './log.ts'
import type { Metrics } from './metrics.ts'
import { createCachedReading } from './cached-reading.ts'

type RedisMeters = {
  readonly store: 'state' | 'cache'
  readonly redis: Redis | Cluster
  readonly metrics: Pick<Metrics, 'watchAll'>
  readonly log: Pick<Log, 'warn'>
}

type Server = {
  readonly usedBytes: number
  readonly limitBytes: number
  /** 0 without an append-only file. */
  readonly aofBytes: number
  readonly hasAof: boolean
  readonly hasFailed: boolean
}

/**
 * Reports memory and persistence of a Redis server, or of all masters of a cluster as one, from
 * INFO whenever metrics are read. State without an append-only file counts as not persisted.
 */
export function watchRedis ({ store, redis, metrics, log }: RedisMeters): void {
  const read = createCachedReading(async () => (await infosOf(redis)).map(serverOf), {
    name: `INFO of the ${store} Redis`, log,
  })
  type Name = 'redis_memory_bytes' | 'redis_memory_limit_bytes' | 'redis_aof_bytes' |
    'redis_persistence_failed'
  const watch = (name: Name, of: (servers: readonly Server[]) => number) =>
    metrics.watchAll(name, async () => {
      const servers = await read()
      return servers.length === 0 ? [] : [{ labels: { store }, value: of(servers) }]
    })
  const sumOf = (name: 'usedBytes' | 'limitBytes' | 'aofBytes') => (servers: readonly Server[]) =>
    servers.reduce((sum, server) => sum + server[name], 0)
  watch('redis_memory_bytes', sumOf('usedBytes'))
  watch('redis_memory_limit_bytes', sumOf('limitBytes'))
  watch('redis_aof_bytes', sumOf('aofBytes'))
  watch('redis_persistence_failed', servers => Number(servers.some(({ hasAof, hasFailed }) =>
    hasFailed || (store === 'state' && !hasAof))))
}

const infosOf = (redis: Redis | Cluster): Promise<readonly string[]> =>
  Promise.all(redis instanceof Cluster
    ? redis.nodes('master').map(node => node.info())
    : [redis.info()])

const LAST_STATUSES = [
  'aof_last_write_status', 'aof_last_bgrewrite_status', 'rdb_last_bgsave_status',
]

function serverOf (info: string): Server {
  const fields = new Map(info.split('\r\n').map(line => line.split(':') as [string, string]))
  const numberOf = (name: string) => Number(fields.get(name) ?? 0)
  const maxBytes = numberOf('maxmemory')
  // A server that evicts stays at its maximum; only its machine can run out of memory.
  const refusesWrites = maxBytes > 0 && fields.get('maxmemory_policy') === 'noeviction'
  return {
    usedBytes: numberOf('used_memory'),
    limitBytes: refusesWrites ? maxBytes : numberOf('total_system_memory'),
    aofBytes: numberOf('aof_current_size'),
    hasAof: fields.get('aof_enabled') === '1',
    hasFailed: LAST_STATUSES.some(name => fields.get(name) === 'err'),
  }
}
