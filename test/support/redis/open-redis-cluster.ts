import type { Cluster } from 'ioredis'
import { afterAll } from 'vitest'
import { scatteredTenants, startRedisCluster, type RedisCluster } from './cluster.ts'

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
