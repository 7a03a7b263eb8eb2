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
 * kept. It ends with the test file.
 */
export async function startRedis (): Promise<PrivateRedis> {
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
  await keepUnlocked(connect(), connect())
  return { redis: connect(), connect, stop }
}
