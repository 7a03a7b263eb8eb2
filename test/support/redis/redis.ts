import { Redis } from 'ioredis'
import { afterAll } from 'vitest'
import { keepUnlocked } from './unlock.ts'
import { startRedisServer } from './server.ts'

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
