import { Redis } from 'ioredis'
import { afterAll } from 'vitest'
import { startRedisServer } from './server.ts'

/** A Redis of one's own whose tenants stay locked; it ends with the test file. */
export async function startLockedRedis () {
  const server = await startRedisServer()
  const connections: Redis[] = []
  afterAll(async () => {
    for (const connection of connections) connection.disconnect()
    await server.stop()
  })
  const connect = () => {
    const connection = new Redis({ path: server.socket, maxRetriesPerRequest: 1 })
    connections.push(connection)
    return connection
  }
  return { redis: connect(), connect }
}
