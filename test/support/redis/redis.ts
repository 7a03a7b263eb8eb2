import { type Cluster, Redis } from 'ioredis'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll } from 'vitest'
import { createJobStore } from '../../../services/jobs/store.ts'
import { createWallet } from '../../../services/money/wallet.ts'
import { newFolder } from '../folder.ts'
import { type RedisCluster, scatteredTenants, startRedisCluster } from './cluster.ts'
import { startRedisServer } from './server.ts'
import { keepUnlocked } from './unlock.ts'

export type PrivateRedis = {
  readonly redis: Redis
  /** A further connection to the same server, closed along with it. */
  readonly connect: () => Redis
  readonly stop: () => Promise<void>
}

/**
 * A redis-server of one's own on a unix socket in a temporary folder: no port to collide, nothing
 * kept. Its tenants stay locked. It ends with the test file.
 */
export async function startLockedRedis (): Promise<PrivateRedis> {
  const server = await startRedisServer()
  const connections: Redis[] = []
  const stop = async () => {
    for (const connection of connections) connection.disconnect()
    await server.stop()
  }
  afterAll(stop)
  const connect = () => {
    const connection = new Redis({ path: server.socket, maxRetriesPerRequest: 1 })
    connections.push(connection)
    return connection
  }
  return { redis: connect(), connect, stop }
}

/** A redis-server of one's own whose tenants are unlocked. */
export async function startRedis (): Promise<PrivateRedis> {
  const own = await startLockedRedis()
  await keepUnlocked(own.connect(), own.connect())
  return own
}

/** A store of jobs on a Redis of its own, and new tenants with money. */
export async function startJobStore () {
  const { redis, connect } = await startRedis()
  const wallet = createWallet(redis)
  let tenants = 0
  const fundedTenant = async (amountMicros = 1_000_000): Promise<string> => {
    const tenant = `org_${tenants += 1}.live`
    await wallet.topUp(tenant, { id: 'a', amountMicros, reason: '' })
    return tenant
  }
  return { redis, connect, wallet, store: createJobStore(redis), fundedTenant }
}

/** A Redis of one's own that keeps a file, and can end and start; its tenants stay locked. */
export async function startRestartableRedis () {
  const folder = newFolder('gate-')
  const path = join(folder, 's')
  const start = () => startRedisServer(
    ['--dir', folder, '--unixsocket', path, '--appendonly', 'yes', '--appendfsync', 'always'])
  let server = await start()
  const connections: Redis[] = []
  const connect = (): Redis => {
    const connection = new Redis({ path, maxRetriesPerRequest: 20, retryStrategy: () => 20 })
    connection.on('error', () => {})
    connections.push(connection)
    return connection
  }
  const redis = connect()
  afterAll(async () => {
    for (const connection of connections) connection.disconnect()
    await server.stop()
    rmSync(folder, { recursive: true, force: true })
  })
  return {
    redis,
    connect,
    /** The server ends, and another one runs on its files. */
    restart: async (): Promise<void> => {
      await server.stop()
      server = await start()
      await redis.ping()
    },
    /** The id of the run of the server. */
    runOf: async () => /run_id:(\w+)/.exec(await redis.info('server'))?.[1],
  }
}

/** Tenants on all servers of a cluster. */
export const TENANTS = scatteredTenants(24)

/** Runs this for each of them at the same time. */
export const ofEach = <T>(work: (tenant: string) => Promise<T>): Promise<T[]> =>
  Promise.all(TENANTS.map(work))

/** A cluster and a connection to it, which end with the test file. */
export async function openRedisCluster (): Promise<{
  readonly servers: RedisCluster, readonly cluster: Cluster
}> {
  const servers = await startRedisCluster()
  afterAll(() => servers.stop())
  return { servers, cluster: await servers.connect() }
}
